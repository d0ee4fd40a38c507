//! `mintage store`: the tables of a store, making them, and the step after a backup was restored.

use std::io::Write;

use mintage::{Operator, RegistryBuilder, config::Checked, core::protocol::UNLISTED, shard_minter, time};

use crate::{
    args::{self, Care, ConfigArgs, StoreCommand},
    failure::Failure,
    keys::confirm,
    output,
};

pub(crate) async fn run(config: &ConfigArgs, command: StoreCommand) -> Result<(), Failure> {
    let builder: RegistryBuilder = args::builder();
    let operator = builder.operator(&config.load()?)?;
    match command {
        StoreCommand::Ddl { function: Some(entity), shard: Some(shard), .. } => {
            function(operator.checked(), &entity, shard)
        }
        StoreCommand::Ddl { store, .. } => ddl(&builder, operator.checked(), store.as_deref()),
        StoreCommand::Init { store } => {
            let store = named(operator.checked(), store.as_deref())?;
            let made = operator.init(store).await?;
            output::remark(&format!("stores.{store}: {}", if made { "made" } else { "was there already" }));
            Ok(())
        }
        StoreCommand::Bump { store, care } => bump(&operator, store.as_deref(), &care).await,
    }
}

/// The store of that name, or the only one.
fn named<'c>(checked: &'c Checked, store: Option<&'c str>) -> Result<&'c str, Failure> {
    let known: Vec<&str> = checked.stores.iter().map(|store| store.name.as_str()).collect();
    match (store, known.as_slice()) {
        (Some(store), _) if known.contains(&store) => Ok(store),
        (Some(store), _) => Err(Failure::usage(format!("no store {store:?} (known: {})", known.join(", ")))),
        (None, [only]) => Ok(only),
        (None, _) => Err(Failure::usage(format!("there are several stores: name one of {}", known.join(", ")))),
    }
}

fn ddl(builder: &RegistryBuilder, checked: &Checked, store: Option<&str>) -> Result<(), Failure> {
    let name = named(checked, store)?;
    let store = checked.store(name);
    let kind = store.map_or("", |store| store.url_scheme());
    let factory = store.and_then(|store| builder.catalog().backend_of(&store.url));
    let prefix = store.map(|store| store.tables.clone()).unwrap_or_default();
    let tables = factory.and_then(|factory| factory.ddl(&prefix)).ok_or_else(|| {
        Failure::usage(format!(
            "stores.{name}: {kind} stores have no tables; `mintage store init {name}` makes what they need"
        ))
    })?;
    let mut out = std::io::stdout().lock();
    out.write_all(tables.trim_end().as_bytes())?;
    if let Some(grants) = factory.and_then(|factory| factory.grants(&prefix)) {
        write!(out, "\n\n{}", grants.trim_end())?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

fn function(checked: &Checked, entity: &str, shard: u32) -> Result<(), Failure> {
    let known: Vec<&str> = checked.entities.iter().map(|entity| entity.name.as_str()).collect();
    let wanted = checked
        .entity(entity)
        .ok_or_else(|| Failure::usage(format!("no entity {entity:?} (known: {})", known.join(", "))))?;
    let prefix = checked.store(&wanted.store).map(|store| store.tables.clone()).unwrap_or_default();
    let text = shard_minter(wanted, shard, &prefix).map_err(|error| Failure::usage(error.to_string()))?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let pool = wanted.needs.worker.as_ref().and_then(|need| checked.pool(&need.pool));
    if let Some(pool) = pool.filter(|pool| pool.block.contains(&shard)) {
        output::remark(&format!(
            "worker id {shard} is one that processes lease from pool {0}: before the function is used, wait until nobody holds \
             it and its last window is over, and `mintage workers revoke {0} {shard}`",
            pool.name
        ));
    }
    Ok(())
}

async fn bump(operator: &Operator<'_>, store: Option<&str>, care: &Care) -> Result<(), Failure> {
    let store = named(operator.checked(), store)?;
    let pools = operator.pools_in(store).await?;
    let sequences = operator.sequences_in(store).await?;
    let mut plan = format!("stores.{store} would be taken for one that may have forgotten its last writes\n");
    let rows: Vec<(String, String)> = pools
        .iter()
        .map(|(pool, region, count)| {
            let name = if region.is_empty() { pool.clone() } else { format!("{pool} {region}") };
            (
                name,
                format!(
                    "{count} worker ids: windows begin above all that can have been granted, leases are claimed anew"
                ),
            )
        })
        .collect();
    plan.push_str(&output::aligned(&rows, 2));
    plan.push_str("  and every pool that this config does not name\n");
    let rows: Vec<(String, String)> = sequences
        .iter()
        .map(|row| {
            (
                row.name.clone(),
                format!(
                    "next {}: gives none until it is raised above every number in use or held by a running process",
                    row.next
                ),
            )
        })
        .collect();
    plan.push_str(&output::aligned(&rows, 2));
    if let Some(now_ms) = operator.bump_by_own_clock(store).await? {
        let now = time::rfc3339(i64::try_from(now_ms).unwrap_or(i64::MAX), 1);
        plan.push_str(&format!(
            "the store has no clock, so this machine's counts: {now}. It must not be behind the others' by more than `guard`\n"
        ));
    }
    std::io::stdout().lock().write_all(plan.as_bytes())?;
    if care.dry_run {
        return Ok(());
    }
    confirm(care)?;
    let bumped = operator.bump(store).await?;
    let pools = if bumped.has_all_pools {
        "every pool of the store was bumped, whether this config names it or not".to_owned()
    } else {
        format!(
            "of its pools, the {} that this config names were bumped; bump others by their configs",
            bumped.pools.len()
        )
    };
    output::remark(&pools);
    if !bumped.has_all_sequences {
        output::remark("this kind of store cannot stop its sequences: before anything is minted, raise each of them");
    }
    if bumped.waiting.is_empty() {
        return Ok(());
    }
    output::remark(
        "no sequence gives a number until it is raised above every number in use or held by a running process, N; '*' once no number \
         of a sequence that is not listed is in use:",
    );
    let mut out = std::io::stdout().lock();
    for name in bumped.waiting.iter().filter(|name| *name != UNLISTED) {
        writeln!(out, "mintage sequences raise {name} N --store {store}")?;
    }
    if bumped.waiting.iter().any(|name| name == UNLISTED) {
        writeln!(out, "mintage sequences raise '*' --store {store}")?;
    }
    Ok(())
}
