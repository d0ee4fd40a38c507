//! `[workers.X]` where it is about processes: which replica this is, how many worker ids it takes, when it gives them up, and
//! where it leases from while the pool's store cannot be reached.

use std::ops::Range;

use mintage_core::{
    WorkerChoice,
    plugin::{Problem, Setting, Value},
};

use super::{Block, Reader, pools::User};
use crate::{
    config::{ClockLimits, OnLeaseLost, PoolConfig, StoreConfig, tree::join, words},
    instance,
};

/// The worker ids of a pool, and who shares them.
pub(super) struct Share<'a> {
    pub(super) users: &'a [User<'a>],
    pub(super) block: &'a Range<u32>,
    pub(super) count: u32,
    /// Whether the pool's store is of one machine.
    pub(super) local: bool,
}

impl<'c> Reader<'c> {
    /// Whether no other machine reaches the store. `false` where the store is at fault.
    pub(super) fn is_local(&self, stores: &[StoreConfig], name: &str) -> bool {
        let store = stores.iter().find(|store| store.name == name);
        let factory = store.and_then(|store| self.catalog.backend_of(&store.url));
        factory.is_some_and(|factory| factory.local())
    }

    /// The worker id that the number of this replica names, if an entity asks for that; or why there is no number.
    ///
    /// In a store of one machine it is insisted on: any other may be another machine's.
    pub(super) fn replica(&mut self, share: &Share<'_>) -> (Option<WorkerChoice>, Option<String>) {
        let Some(user) = share.users.iter().find(|user| user.need.ordinal) else { return (None, None) };
        let (path, at) = self.place_of(user);
        if let Some(other) = share.users.iter().find(|user| user.need.which != WorkerChoice::Any) {
            let message = format!(
                "asks for the worker id of the replica, and entity {} on the same pool for a fixed one: a process holds one \
                 lease of a pool; agree on one, or use two pools",
                other.entity.name
            );
            self.refuse(&path, at, message);
            return (None, None);
        }
        let ordinal = match instance::ordinal(self.environment) {
            Ok(ordinal) => ordinal,
            Err(why) => {
                let message = format!("{why}; without it a start is refused on this machine");
                self.problems.push(Problem { path, at, message, warning: true });
                return (None, Some(why));
            }
        };
        let Range { start, end } = *share.block;
        let worker = ordinal.checked_mul(share.count).and_then(|ahead| start.checked_add(ahead));
        match worker.filter(|worker| worker.checked_add(share.count).is_some_and(|past| past <= end)) {
            Some(worker) if share.local => (Some(WorkerChoice::Exactly(worker)), None),
            Some(worker) => (Some(WorkerChoice::Prefer(worker)), None),
            None if share.block.is_empty() => (None, None),
            None => {
                let message = format!(
                    "replica {ordinal} has no worker id: the pool owns {start}..{end}, {} for each replica; give it more \
                     worker bits or a larger block",
                    share.count
                );
                self.refuse(&path, at, message);
                (None, None)
            }
        }
    }

    /// What a store of one machine cannot keep apart.
    pub(super) fn local_promise(&mut self, store: &str, share: &Share<'_>, which: WorkerChoice) {
        let (WorkerChoice::Exactly(worker), true) = (which, share.local) else { return };
        let Some(user) =
            share.users.iter().find(|user| user.need.ordinal || user.need.which == WorkerChoice::Exactly(worker))
        else {
            return;
        };
        let (path, at) = self.place_of(user);
        let message = format!(
            "worker id {worker} is kept from the other processes of this machine only, by windows written ahead in store {store}: \
             nothing keeps another machine from using it, or a copy of that store; for that take a store on a server"
        );
        self.problems.push(Problem { path, at, message, warning: true });
    }

    pub(super) fn count(&mut self, block: &Block<'c>, users: &[User<'_>]) -> u32 {
        let count = match block.setting("count").map(|setting| &setting.value) {
            Some(Value::Integer(count)) => u32::try_from(*count).unwrap_or(1).max(1),
            _ => 1,
        };
        let insists = users.iter().find(|user| matches!(user.need.which, WorkerChoice::Exactly(_)));
        if let Some(user) = insists.filter(|_| count > 1) {
            let message =
                format!("entity {} insists on one worker id: take out the count, or the id there", user.entity.name);
            self.refuse(&join(&block.path, "count"), block.setting("count").map(|setting| setting.at), message);
        }
        count
    }

    pub(super) fn on_lease_lost(&mut self, block: &Block<'c>) -> OnLeaseLost {
        match block.text("on_lease_lost") {
            Some(("exit", _)) => OnLeaseLost::Exit,
            _ => OnLeaseLost::Stop,
        }
    }

    /// In a store of one machine all holders read the clock that the store reads: there is nothing to compare, and another
    /// worker id would be no better off after a step back.
    pub(super) fn clock_limits(&mut self, block: &Block<'c>, store: &str, local: bool) -> ClockLimits {
        let mut limits = ClockLimits::default();
        let mut settings = self.settings(block);
        let Some(mut clock) = settings.table("clock") else { return limits };
        for (key, limit_ms) in [
            ("alert", &mut limits.alert_ms),
            ("refuse_start", &mut limits.refuse_start_ms),
            ("release", &mut limits.release_ms),
        ] {
            if let Some(given_ms) = clock.duration_ms(key) {
                *limit_ms = given_ms;
            }
        }
        if limits.alert_ms > limits.refuse_start_ms {
            let message = format!(
                "an alert at {} comes too late where a start is refused at {}: alert sooner",
                words::duration(limits.alert_ms),
                words::duration(limits.refuse_start_ms)
            );
            clock.refuse(if clock.has("alert") { "alert" } else { "refuse_start" }, message);
        }
        if local {
            let message = format!(
                "has no effect: store {store} is of this machine, whose one clock all its processes read, so nothing is compared \
                 and a step back gives no worker id up; take it out"
            );
            let at = block.setting("clock").map(|setting| setting.at);
            self.problems.push(Problem { path: join(&block.path, "clock"), at, message, warning: true });
        }
        limits
    }

    /// Resolves the reserve of each pool: another store, and a block of worker ids that is nobody else's.
    pub(super) fn fallbacks(&mut self, pools: &mut [PoolConfig], users: &[User<'_>], stores: &[StoreConfig]) {
        for user in users {
            let Some(wanted) = &user.need.fallback else { continue };
            let path = join(&join("entities", &user.entity.name), "fallback");
            let written = self.block("entities", &user.entity.name).and_then(|block| block.setting("fallback"));
            let at = written.map(|Setting { at, .. }| *at);
            let store = match written.map(|setting| &setting.value) {
                Some(Value::Table(table)) => {
                    Block { name: "fallback", path: path.clone(), at: user.entity.at, table }.text("store")
                }
                _ => None,
            };
            let elsewhere = store.and_then(|(store, _)| {
                let reserve = pools.iter().find(|pool| pool.name == *wanted && pool.store != store)?;
                Some(format!("pool {wanted} is in store {}, not in {}", reserve.store, words::quoted(store)))
            });
            match elsewhere.or_else(|| self.fallback_fault(pools, user, users, wanted)) {
                Some(fault) => self.refuse(&path, at, fault),
                None => {
                    if let Some(pool) = pools.iter_mut().find(|pool| pool.name == user.need.pool) {
                        pool.fallback = Some(wanted.clone());
                    }
                    let reserve = pools.iter().find(|pool| pool.name == *wanted);
                    if let Some(reserve) = reserve.filter(|reserve| self.is_local(stores, &reserve.store)) {
                        let message = format!(
                            "store {} is of one machine: no two machines may share the reserve {}..{} of pool {wanted}",
                            reserve.store, reserve.block.start, reserve.block.end
                        );
                        self.problems.push(Problem { path, at, message, warning: true });
                    }
                }
            }
        }
    }

    /// What is wrong with a reserve. Where its pool is not known or at fault itself, that is told there.
    fn fallback_fault(
        &self,
        pools: &[PoolConfig],
        user: &User<'_>,
        users: &[User<'_>],
        wanted: &str,
    ) -> Option<String> {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        let Some(reserve) = pools.iter().find(|pool| pool.name == wanted) else {
            return Some(words::unknown("pool", wanted, &names));
        };
        let pool = pools.iter().find(|pool| pool.name == user.need.pool)?;
        if let Some(other) =
            users.iter().find(|other| other.need.pool == pool.name && other.need.fallback != user.need.fallback)
        {
            return Some(format!(
                "entity {} on the same pool has another reserve or none: a process holds one lease for both, so write the \
                 same line there",
                other.entity.name
            ));
        }
        if reserve.store == pool.store {
            return Some(format!(
                "pools {} and {wanted} are both in store {}: a reserve in the same store is gone with it",
                pool.name, pool.store
            ));
        }
        if user.entity.store != pool.store {
            return Some(format!(
                "the format of {} is kept in store {} and its worker ids in {}: a start would still need the first; keep both \
                 in one store",
                user.entity.name, user.entity.store, pool.store
            ));
        }
        if reserve.region.is_none() || reserve.region == pool.region {
            return Some(format!(
                "pools {} and {wanted} could lease one worker id to two processes: give each a region of its own in [regions], \
                 whose blocks do not overlap",
                pool.name
            ));
        }
        None
    }
}
