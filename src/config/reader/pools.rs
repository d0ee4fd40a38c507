//! `[workers.X]` and `[regions]`: which worker ids this process may lease, and for how long.
//!
//! What overlaps or overflows here would put two processes on one worker id, so nothing is rounded or cut to fit.

use std::ops::Range;

use mintage_core::{
    WorkerChoice, parse_decimal,
    plugin::{Place, Setting, Value, WorkerNeed},
};

use super::{Block, Known, Reader, fleet::Share};
use crate::config::{
    EntityConfig, Environment, LeaseTimes, PoolConfig, StoreConfig,
    keys::{INSTANCE, NAME},
    tree::join,
    words,
};

/// Fewest time units a window may hold: successive holders share no unit, so each loses up to two at the edges.
const WINDOW_UNITS_MIN: u64 = 5;
/// Longest time of a lease, in milliseconds: a day. A crashed process blocks its worker id for a window.
const LEASE_TIME_MAX_MS: u64 = 86_400_000;

/// The regions by name, each with its block.
type Regions<'c> = Vec<(&'c str, Range<u32>)>;

/// An entity and what it wants of a pool.
#[derive(Clone, Copy)]
pub(super) struct User<'e> {
    pub(super) entity: &'e EntityConfig,
    pub(super) need: &'e WorkerNeed,
}

impl<'c> Reader<'c> {
    /// The map of regions. An empty or unreadable block is left out; overlapping ones are told and kept.
    pub(super) fn regions(&mut self) -> Regions<'c> {
        let mut regions: Vec<(&'c str, Range<u32>, Place)> = Vec::new();
        for (name, setting) in self.entries("regions") {
            let path = join("regions", name);
            if !NAME.fits(name) {
                let message = format!("{} cannot be used as a name here: write {}", words::quoted(name), NAME.words);
                self.refuse(&path, Some(setting.at), message);
            }
            let Value::Text(text) = &setting.value else { continue };
            match block_of(text) {
                Some(block) => regions.push((name, block, setting.at)),
                None => {
                    let message = format!(
                        "{} is no block of worker ids: write the first and one past the last, such as \"0..256\"",
                        words::quoted(text)
                    );
                    self.refuse(&path, Some(setting.at), message);
                }
            }
        }
        self.overlaps(&regions);
        regions.into_iter().map(|(name, block, _)| (name, block)).collect()
    }

    /// Tells each block that begins before all blocks left of it have ended.
    fn overlaps(&mut self, regions: &[(&'c str, Range<u32>, Place)]) {
        let mut by_start: Vec<_> = regions.iter().collect();
        by_start.sort_by_key(|(_, block, at)| (block.start, block.end, *at));
        let mut furthest: Option<&(&str, Range<u32>, Place)> = None;
        for region in by_start {
            if let Some(left) = furthest.filter(|left| left.1.end > region.1.start) {
                let (first, second) = if left.2 <= region.2 { (left, region) } else { (region, left) };
                let message = format!(
                    "{}..{} overlaps {}..{} of region {}: two regions would mint with one worker id",
                    second.1.start, second.1.end, first.1.start, first.1.end, first.0
                );
                self.refuse(&join("regions", second.0), Some(second.2), message);
            }
            if furthest.is_none_or(|left| region.1.end > left.1.end) {
                furthest = Some(region);
            }
        }
    }

    pub(super) fn pools(
        &mut self,
        known: &Known<'c>,
        entities: &[EntityConfig],
        regions: &[(&'c str, Range<u32>)],
        stores: &[StoreConfig],
    ) -> Vec<PoolConfig> {
        let blocks = self.blocks("workers", &NAME);
        let names = self.names("workers");
        let users: Vec<User<'_>> = entities
            .iter()
            .filter_map(|entity| entity.needs.worker.as_ref().map(|need| User { entity, need }))
            .collect();
        for user in &users {
            if !names.contains(&user.need.pool.as_str()) {
                self.no_pool(user, &names);
            }
        }
        let reserves: Vec<WorkerNeed> = users.iter().filter_map(|user| as_reserve(user.need)).collect();
        let with_reserve = users.iter().filter(|user| user.need.fallback.is_some());
        let guests: Vec<User<'_>> =
            with_reserve.zip(&reserves).map(|(user, need)| User { entity: user.entity, need }).collect();
        let mut pools: Vec<PoolConfig> = blocks
            .iter()
            .map(|block| {
                let all = users.iter().chain(&guests);
                let users: Vec<User<'_>> = all.copied().filter(|user| user.need.pool == block.name).collect();
                self.pool(block, known, &users, regions, stores)
            })
            .collect();
        self.fallbacks(&mut pools, &users, stores);
        pools
    }

    fn pool(
        &mut self,
        block: &Block<'c>,
        known: &Known<'c>,
        users: &[User<'_>],
        regions: &[(&'c str, Range<u32>)],
        stores: &[StoreConfig],
    ) -> PoolConfig {
        let region = self.region(block, regions);
        let lease = self.lease(block);
        self.windows_hold_units(block, &lease, users);
        // Empty or the default after a fault, and then nobody sees it.
        let store = self.store_of(block, known).unwrap_or_default();
        let workers = self.workers(region.as_ref(), users);
        let share =
            Share { users, block: &workers, count: self.count(block, users), local: self.is_local(stores, &store) };
        let fixed = self.which(users);
        let (replica, no_ordinal) = self.replica(&share);
        let which = replica.unwrap_or(fixed);
        self.local_promise(&store, &share, which);
        let count = share.count;
        let clock = self.clock_limits(block, &store, share.local);
        PoolConfig {
            name: block.name.to_owned(),
            store,
            block: workers,
            region: region.map(|(name, _)| name.to_owned()),
            which,
            no_ordinal,
            lease,
            instance: self.instance(block),
            count,
            on_lease_lost: self.on_lease_lost(block),
            clock,
            fallback: None,
            at: block.at,
        }
    }

    fn no_pool(&mut self, user: &User<'_>, names: &[&str]) {
        let (path, at) = self.place_of(user);
        let mut message = words::unknown("pool", &user.need.pool, names);
        if names.is_empty() {
            message.push_str(&format!(": add the line `[workers.{}]`", words::clipped(&user.need.pool)));
        }
        self.refuse(&path, at, message);
    }

    /// The region of a pool; `None` where there are no regions, or after a fault.
    fn region(&mut self, block: &Block<'c>, regions: &[(&'c str, Range<u32>)]) -> Option<(&'c str, Range<u32>)> {
        let names = self.names("regions");
        let path = join(&block.path, "region");
        match block.setting("region") {
            None if names.is_empty() => None,
            None => {
                let message = format!(
                    "missing: [regions] shares the worker ids out, so write which region this process is in: `region = \
                     \"…\"`, one of {}",
                    words::listed(&names)
                );
                self.refuse(&path, Some(block.at), message);
                None
            }
            Some(Setting { value: Value::Text(name), at }) => {
                self.known_name("region", name, &names, &path, *at)?;
                regions.iter().find(|(known, _)| known == name).cloned()
            }
            Some(_) => None,
        }
    }

    /// The worker ids of a pool, which must fit every layout that uses it.
    fn workers(&mut self, region: Option<&(&'c str, Range<u32>)>, users: &[User<'_>]) -> Range<u32> {
        let narrowest = users.iter().min_by_key(|user| user.need.always.end);
        let block = match region {
            Some((_, block)) => block.clone(),
            None => narrowest.map_or(0..0, |user| user.need.always.clone()),
        };
        for user in users {
            let room = &user.need.room;
            if let Some((name, _)) = region.filter(|_| block.start < room.start || block.end > room.end) {
                let message = format!(
                    "region {name} owns worker ids {}..{}, but this layout has room for {}..{} only: give it more worker \
                     bits, or the region another block",
                    block.start, block.end, room.start, room.end
                );
                let (path, at) = self.place_of(user);
                self.refuse(&path, at, message);
            }
            let (WorkerChoice::Prefer(worker) | WorkerChoice::Exactly(worker)) = user.need.which else { continue };
            let limit = match (room.contains(&worker), block.contains(&worker), region, narrowest) {
                (false, ..) => format!("{}..{}, the worker ids this layout has room for", room.start, room.end),
                (_, false, Some((name, _)), _) => format!("{}..{}, the block of region {name}", block.start, block.end),
                (_, false, None, Some(narrowest)) => format!(
                    "{}..{}, the worker ids that entity {} on the same pool has room for",
                    block.start, block.end, narrowest.entity.name
                ),
                _ => continue,
            };
            let (path, at) = self.place_of_id(user, worker);
            self.refuse(&path, at, format!("worker id {worker} lies outside {limit}"));
        }
        block
    }

    /// The one worker id the entities of a pool agree on.
    fn which(&mut self, users: &[User<'_>]) -> WorkerChoice {
        let mut agreed: Option<(u32, &User<'_>)> = None;
        let mut insists = false;
        for user in users {
            let (WorkerChoice::Prefer(worker) | WorkerChoice::Exactly(worker)) = user.need.which else { continue };
            insists |= matches!(user.need.which, WorkerChoice::Exactly(_));
            match agreed {
                None => agreed = Some((worker, user)),
                Some((other, _)) if other == worker => {}
                Some((other, first)) => {
                    let message = format!(
                        "worker id {worker} is asked for here and {other} by entity {}: a process holds one lease of a pool; \
                         agree on one, or use two pools",
                        first.entity.name
                    );
                    let (path, at) = self.place_of_id(user, worker);
                    self.refuse(&path, at, message);
                }
            }
        }
        match agreed {
            None => WorkerChoice::Any,
            Some((worker, _)) if insists => WorkerChoice::Exactly(worker),
            Some((worker, _)) => WorkerChoice::Prefer(worker),
        }
    }

    /// The times of a lease; `None` after a fault.
    /// The times as far as they can be read. A wrong one hides no other.
    fn lease(&mut self, block: &Block<'c>) -> LeaseTimes {
        let mut times = LeaseTimes::default();
        let mut settings = self.settings(block);
        let Some(mut lease) = settings.table("lease") else { return times };
        let refusals = lease.refusals();
        for (key, time_ms) in [
            ("ttl", &mut times.ttl_ms),
            ("renew", &mut times.renew_ms),
            ("window", &mut times.window_ms),
            ("max_ahead", &mut times.max_ahead_ms),
            ("guard", &mut times.guard_ms),
            ("quarantine", &mut times.quarantine_ms),
        ] {
            if let Some(given_ms) = lease.duration_ms(key) {
                *time_ms = given_ms;
            }
        }
        let sound = lease.refusals() == refusals;
        times.stop_ms = lease.duration_ms("stop");
        for key in ["ttl", "renew", "window", "max_ahead", "guard", "quarantine", "stop"] {
            if lease.duration_ms(key).is_some_and(|ms| ms > LEASE_TIME_MAX_MS) {
                lease.refuse(key, "longer than a day: a crashed process would block its worker id that long");
            }
        }
        if let Some(fault) = out_of_order(&times).filter(|_| sound) {
            lease.refuse("", fault);
        }
        times
    }

    fn windows_hold_units(&mut self, block: &Block<'c>, lease: &LeaseTimes, users: &[User<'_>]) {
        for user in users {
            let least_ms = WINDOW_UNITS_MIN * u64::from(user.need.unit_ms);
            if lease.window_ms >= least_ms {
                continue;
            }
            let message = format!(
                "a window of {} is under {WINDOW_UNITS_MIN} time units of entity {} ({} each): write at least {}",
                words::duration(lease.window_ms),
                user.entity.name,
                words::duration(user.need.unit_ms.into()),
                words::duration(least_ms),
            );
            let lease_block = match block.setting("lease") {
                Some(Setting { value: Value::Table(table), at }) => {
                    Block { name: "lease", path: join(&block.path, "lease"), at: *at, table }
                }
                _ => block.clone(),
            };
            let at = lease_block.setting("window").map_or(lease_block.at, |setting| setting.at);
            self.refuse(&join(&lease_block.path, "window"), Some(at), message);
        }
    }

    /// What the process is called: the environment's word, else the config's.
    fn instance(&mut self, block: &Block<'c>) -> Option<String> {
        let path = join(&block.path, "instance");
        let from_config = block.text("instance");
        if let Some((name, at)) = from_config {
            self.names_an_instance(&path, Some(at), "", name);
        }
        let from_environment = self.instance_by_environment(&path, Some(block.at));
        from_environment.or_else(|| from_config.map(|(name, _)| name.to_owned()))
    }

    /// What the process is called in the history of ranges: as in its leases, if it is called something there.
    pub(super) fn own_instance(&mut self, pools: &[PoolConfig]) -> Option<String> {
        match pools {
            // Nobody else has read it.
            [] => self.instance_by_environment(Environment::INSTANCE, None),
            pools => pools.iter().find_map(|pool| pool.instance.clone()),
        }
    }

    fn instance_by_environment(&mut self, path: &str, at: Option<Place>) -> Option<String> {
        let environment = self.environment;
        match environment.value(Environment::INSTANCE) {
            Ok(name) => name.map(|name| {
                self.names_an_instance(path, at, "the environment variable MINTAGE_INSTANCE: ", name);
                name.to_owned()
            }),
            Err(error) => {
                self.refuse(path, at, error.to_string());
                None
            }
        }
    }

    fn names_an_instance(&mut self, path: &str, at: Option<Place>, origin: &str, name: &str) {
        if !INSTANCE.fits(name) {
            let message = format!("{origin}{} is no instance name: write {}", words::quoted(name), INSTANCE.words);
            self.refuse(path, at, message);
        }
    }

    /// Where an entity says what it wants of a pool.
    pub(super) fn place_of(&self, user: &User<'_>) -> (String, Option<Place>) {
        match self.wish(user) {
            Some((path, setting, _)) => (path, Some(setting.at)),
            None => (join("entities", &user.entity.name), Some(user.entity.at)),
        }
    }

    /// Where an entity says which worker id it wants: the number in or beside its wish for a pool, else that wish.
    fn place_of_id(&self, user: &User<'_>, worker: u32) -> (String, Option<Place>) {
        let number = Value::Integer(worker.into());
        let found = self.wish(user).and_then(|(path, setting, holder)| {
            let holder = match &setting.value {
                Value::Table(table) => Block { name: "", path, at: setting.at, table },
                _ => holder,
            };
            let (name, setting) = holder.table.iter().find(|(_, setting)| setting.value == number)?;
            Some((join(&holder.path, name), Some(setting.at)))
        });
        found.unwrap_or_else(|| self.place_of(user))
    }

    /// The setting in which an entity says what it wants of a pool, with its path and the table it stands in.
    fn wish(&self, user: &User<'_>) -> Option<(String, &'c Setting, Block<'c>)> {
        setting_at(user.need.at?, self.block("entities", &user.entity.name)?)
    }
}

/// What the reserve of a need is asked for: any worker id that fits.
fn as_reserve(need: &WorkerNeed) -> Option<WorkerNeed> {
    let mut reserve = need.clone();
    reserve.pool = need.fallback.clone()?;
    (reserve.fallback, reserve.which, reserve.ordinal) = (None, WorkerChoice::Any, false);
    Some(reserve)
}

/// The setting that stands at a place, with its path and the table it stands in.
fn setting_at(at: Place, block: Block<'_>) -> Option<(String, &Setting, Block<'_>)> {
    if let Some((name, setting)) = block.table.iter().find(|(_, setting)| setting.at == at) {
        return Some((join(&block.path, name), setting, block));
    }
    block.table.iter().find_map(|(name, setting)| {
        let Value::Table(table) = &setting.value else { return None };
        setting_at(at, Block { name, path: join(&block.path, name), at: setting.at, table })
    })
}

/// Reads `a..b`.
fn block_of(text: &str) -> Option<Range<u32>> {
    let (start, end) = text.split_once("..")?;
    let number = |text| parse_decimal(text, u32::BITS).ok().and_then(|number| u32::try_from(number).ok());
    let block = number(start)?..number(end)?;
    (!block.is_empty()).then_some(block)
}

/// Anything but `renew < stop < ttl ≤ window`.
fn out_of_order(times: &LeaseTimes) -> Option<String> {
    let LeaseTimes { ttl_ms, renew_ms, window_ms, stop_ms, .. } = *times;
    let before_ttl = stop_ms.map_or(renew_ms < ttl_ms, |stop_ms| renew_ms < stop_ms && stop_ms < ttl_ms);
    if renew_ms > 0 && before_ttl && ttl_ms <= window_ms {
        return None;
    }
    let stop = stop_ms.map(|stop_ms| format!(", stop {}", words::duration(stop_ms))).unwrap_or_default();
    let rule = if stop_ms.is_some() { "0 < renew < stop < ttl ≤ window" } else { "0 < renew < ttl ≤ window" };
    Some(format!(
        "{rule} must hold, but renew is {}{stop}, ttl {}, window {}",
        words::duration(renew_ms),
        words::duration(ttl_ms),
        words::duration(window_ms),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_half_open_and_have_one_spelling() {
        assert_eq!(block_of("0..256"), Some(0..256));
        assert_eq!(block_of("4294967294..4294967295"), Some(4_294_967_294..4_294_967_295));
        for bad in [
            "",
            "0",
            "0..",
            "..1",
            "1..1",
            "2..1",
            "0..=1",
            "0 .. 1",
            "00..1",
            "-1..1",
            "0..4294967296",
            "0...1",
            "a..b",
        ] {
            assert_eq!(block_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_right_order_of_times_passes() {
        let times = |renew_ms, stop_ms, ttl_ms, window_ms| LeaseTimes {
            renew_ms,
            stop_ms,
            ttl_ms,
            window_ms,
            ..LeaseTimes::default()
        };
        for good in [times(3, None, 10, 60), times(3, Some(8), 10, 10), times(9, None, 10, 10), LeaseTimes::default()] {
            assert_eq!(out_of_order(&good), None, "{good:?}");
        }
        for bad in [
            times(0, None, 10, 60),
            times(10, None, 10, 60),
            times(3, Some(3), 10, 60),
            times(3, Some(2), 10, 60),
            times(3, Some(10), 10, 60),
            times(3, Some(8), 10, 9),
            times(3, None, 61, 60),
        ] {
            assert!(out_of_order(&bad).is_some(), "{bad:?}");
        }
        assert_eq!(
            out_of_order(&times(3_000, Some(12_000), 10_000, 60_000)).unwrap(),
            "0 < renew < stop < ttl ≤ window must hold, but renew is 3s, stop 12s, ttl 10s, window 60s"
        );
    }
}
