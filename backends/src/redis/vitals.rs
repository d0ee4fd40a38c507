//! The settings of a Redis that decide what it forgets, each told whether or not the server may be used with it.

use mintage_core::{StoreError, StoreSetting};
use redis::{RedisError, aio::MultiplexedConnection};

use super::{RedisCells, WANTED};

pub(super) async fn settings(cells: &RedisCells) -> Result<Vec<StoreSetting>, StoreError> {
    let mut connection = cells.connect_to_any().await?;
    let info: Result<String, RedisError> = redis::cmd("INFO").query_async(&mut connection).await;
    let info = info.map_err(|error| cells.fault(error))?;
    let version = field(&info, "redis_version").unwrap_or("of unknown version");
    let mut told = vec![StoreSetting::new("server", format!("Redis {version}"))];
    if field(&info, "role").is_some_and(|role| role != "master") {
        told.push(
            StoreSetting::new("role", "replica").wrong("a replica is not written to", "name the primary in the URL"),
        );
    }
    for (name, wanted) in WANTED {
        told.push(durability(cells, &mut connection, name, wanted).await?);
    }
    told.push(replicas(cells, &info));
    if let Some(failed) = field(&info, "aof_last_write_status").filter(|status| *status != "ok") {
        let last = StoreSetting::new("aof_last_write_status", failed);
        told.push(last.wrong("its log cannot be written, so nothing is confirmed", "look at its disk"));
    }
    Ok(told)
}

async fn durability(
    cells: &RedisCells,
    connection: &mut MultiplexedConnection,
    name: &str,
    wanted: &str,
) -> Result<StoreSetting, StoreError> {
    let found = match cells.setting(connection, name).await {
        Ok(found) => found,
        Err(error) if error.kind() == mintage_core::StoreErrorKind::Refused => "not told".to_owned(),
        Err(error) => return Err(error),
    };
    let setting = StoreSetting::new(name, &found);
    let remedy = format!("set {name} {wanted} in its config");
    Ok(if found == wanted {
        setting
    } else if name == "maxmemory-policy" {
        setting.wrong("it may evict records, which repeats ids", remedy)
    } else if cells.settings.weak {
        setting.warn(
            "it can forget what it has confirmed; durability=weak in the URL allows that, for leases only",
            remedy,
        )
    } else {
        let remedy = format!("{remedy}, or add durability=weak to the URL to keep only leases there");
        setting.wrong("it can forget what it has confirmed", remedy)
    })
}

/// How many replicas there are, and how many have to acknowledge a change.
fn replicas(cells: &RedisCells, info: &str) -> StoreSetting {
    let connected: u32 = field(info, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
    let asked = cells.settings.replicas;
    let setting = StoreSetting::new("replicas", format!("{connected} connected, {asked} must acknowledge"));
    if connected < asked {
        setting.wrong("nothing is confirmed until enough replicas acknowledge it", "start the replicas")
    } else if connected > 0 && asked == 0 {
        setting.warn(
            "a failover may lose the last changes: worker ids then rest for a window, and ranges stop until raised",
            "add replicas=1 to the URL",
        )
    } else {
        setting
    }
}

fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}
