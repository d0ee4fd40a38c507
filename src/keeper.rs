//! The keeper: one owned task per lease that renews it, stops minting by moving its bound, claims anew after a loss, and
//! releases on close.
//!
//! **When may a lease be given back?** When nobody can mint by it any more, and with what was used of it. Ending and granting
//! are therefore one step each, under one lock: no grant comes between what the schemes say and the lease they say it of.
//!
//! **What happens when the store is down?** The holder mints on to the end of its window and the keeper keeps asking. When the
//! window is over, `mint` says `LeaseLapsed`. When the store is back, the renewal succeeds if nobody took the id meanwhile;
//! otherwise it is fenced, and the keeper claims another: the old window is used up to its end or to the new claim,
//! whichever comes first. Where the config has a reserve, the keeper leases from there once the window is over, and goes home
//! when it can. Uniqueness never depends on any of this being timely.

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use mintage_core::{Lease, Leased, MintError, StoreError, StoreErrorKind};
use mintage_schemes::fork::Birth;
use tokio::{sync::Notify, task::JoinHandle};

use self::clocks::{Comparison, Sight};
use crate::{
    config::OnLeaseLost,
    telemetry::{self, Post},
};

pub(crate) mod clocks;
pub(crate) mod plan;

pub(crate) use plan::{Claim, KeeperPlan, Record, Records};

/// Longest pause between two attempts while the store does not answer.
const RETRY_MS_MAX: u64 = 1_000;
/// How long the task may take to end, in milliseconds. It does at once, unless nobody drives the runtime it was started on.
const END_MS_MAX: u64 = 1_000;
/// How long a holder of the reserve waits before it asks at home again, in milliseconds. A store that hangs costs its timeout
/// each time, in which the reserve is not renewed.
const HOME_PAUSE_MS: u64 = 30_000;

/// Where a lease comes from, and what to do without one.
#[derive(Debug)]
pub(crate) struct Posts {
    pub(crate) home: KeeperPlan,
    /// Serves while the store of the home pool cannot be reached.
    pub(crate) reserve: Option<KeeperPlan>,
    /// Which of the process's leases of the pool.
    pub(crate) lane: u32,
    pub(crate) on_lost: OnLeaseLost,
    pub(crate) exit: Exit,
}

/// What `on_lease_lost = "exit"` does.
#[derive(Clone)]
pub(crate) struct Exit(pub(crate) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exit")
    }
}

/// Holds one lease, shared by every entity of the pool in this process.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// How a lease stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaseHealth {
    /// The pool it is from.
    pub pool: String,
    /// The pool in whose place that one serves, where this is the reserve.
    pub in_place_of: Option<String>,
    /// Which of this process's leases of the pool, from 0.
    pub lane: u32,
    /// The worker id that ids carry.
    pub worker: u32,
    /// End of the window granted so far, Unix ms.
    pub window_end_ms: u64,
    /// Whether minting is possible by this lease just now, as every scheme of the pool says: also after another holder has taken
    /// the worker id, to the end of the window; and not while the clock is behind what was stamped.
    pub live: bool,
    /// Why the last renewal or claim failed, if it did.
    pub trouble: Option<String>,
    /// This machine's clock less the store's at the last renewal, in milliseconds. `None` where they are one clock.
    pub store_offset_ms: Option<i64>,
    /// This machine's clock less the median of the other holders', in milliseconds. `None` where there are no others.
    pub clock_skew_ms: Option<i64>,
    /// How many other holders were compared with.
    pub peers: usize,
    /// Whether that is further than the config's `clock.alert`.
    pub clock_alert: bool,
}

#[derive(Debug)]
struct Shared {
    posts: Posts,
    leased: Vec<Arc<dyn Leased>>,
    birth: Birth,
    stop: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What can be renewed and released; `None` once it was lost.
    lease: Option<Lease>,
    /// Whether it is the reserve's.
    on_reserve: bool,
    granted: Granted,
    /// Named in the next claim at home, to get the same worker id back after a bump.
    previous: Option<u128>,
    trouble: Option<Arc<StoreError>>,
    comparison: Comparison,
    seen: Sight,
    next_home_boot_ms: u64,
    /// The wall clock was set back by too much: the worker id is given up as soon as the store can be told.
    giving_up: bool,
    /// Home has refused the config: the reserve serves no more.
    barred: bool,
    /// The keeper has ended: nothing is granted any more.
    ended: bool,
    /// What it ended with, until that is given back.
    spent: Option<Spent>,
}

/// A lease that nobody mints by any more.
#[derive(Debug)]
struct Spent {
    lease: Lease,
    on_reserve: bool,
    first_unused_ms: u64,
}

/// What the schemes may use: theirs to its end, whoever holds the worker id by then.
#[derive(Clone, Copy, Debug)]
struct Granted {
    worker: u32,
    start_ms: u64,
    end_ms: u64,
    /// They were told to stop, and nothing has been granted since.
    halted: bool,
    /// When the request behind it was sent, on the clock that counts suspend.
    sent_boot_ms: u64,
    /// The wall time at which the schemes were told to stop.
    stop_wall_ms: u64,
}

impl Keeper {
    /// Grants the first window to `leased` and keeps it alive until `close`.
    pub(crate) fn start(
        posts: Posts,
        claim: Claim,
        on_reserve: bool,
        comparison: Comparison,
        leased: Vec<Arc<dyn Leased>>,
    ) -> Self {
        let plan = posts.reserve.as_ref().filter(|_| on_reserve).unwrap_or(&posts.home);
        let state = Mutex::new(State {
            lease: None,
            on_reserve,
            granted: plan.granted(&claim),
            previous: None,
            trouble: None,
            comparison,
            seen: Sight::of(&*plan.clock),
            next_home_boot_ms: plan.clock.boot_ms().saturating_add(HOME_PAUSE_MS),
            giving_up: false,
            barred: false,
            ended: false,
            spent: None,
        });
        let birth = Birth::here();
        let shared = Arc::new(Shared { posts, leased, birth, stop: Notify::new(), state });
        shared.grant(claim, on_reserve);
        shared.tell(None);
        let mut work = Box::pin(keep(Arc::clone(&shared)));
        // In a forked child the task stays where it was: the lease and the store's connections are the parent's.
        let task = poll_fn(move |context| if birth.forked() { Poll::Pending } else { work.as_mut().poll(context) });
        Self { shared, task: Mutex::new(Some(tokio::spawn(task))) }
    }

    /// How the lease stands.
    pub(crate) fn health(&self) -> LeaseHealth {
        self.shared.health()
    }

    /// Ends the task, stops every scheme of the pool, and gives the worker id back. In a forked child it does nothing: the
    /// lease is the parent's.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        if self.shared.birth.forked() {
            return Ok(());
        }
        self.shared.stop.notify_one();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut task) = task {
            // A panic in it was reported by tokio.
            if tokio::time::timeout(Duration::from_millis(END_MS_MAX), &mut task).await.is_err() {
                task.abort();
            }
        }
        // A poll of the task may still be running elsewhere: whatever it is granted comes too late from here on.
        let Some(spent) = self.shared.end().spent.take() else { return Ok(()) };
        match self.shared.give_back(spent).await {
            // Somebody else holds it by now: there is nothing left to give back.
            Err(error) if error.kind() == StoreErrorKind::Fenced => Ok(()),
            other => other,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(task) = task else { return };
        if self.shared.birth.forked() {
            // The task lives in the parent's runtime; its handle must not be touched here.
            std::mem::forget(task);
        } else {
            task.abort();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the lease is from.
    fn plan(&self, on_reserve: bool) -> &KeeperPlan {
        self.posts.reserve.as_ref().filter(|_| on_reserve).unwrap_or(&self.posts.home)
    }

    fn health(&self) -> LeaseHealth {
        let live = self.in_window() && self.leased.iter().all(|scheme| mints(scheme.refusal()));
        let state = self.state();
        let plan = self.plan(state.on_reserve);
        let Comparison { offset_ms, skew_ms, peers } = state.comparison;
        let alert_ms = plan.clocks.as_ref().map(|clocks| clocks.limits.alert_ms);
        LeaseHealth {
            pool: plan.pool.name.clone(),
            in_place_of: state.on_reserve.then(|| self.posts.home.pool.name.clone()),
            lane: self.posts.lane,
            worker: state.granted.worker,
            window_end_ms: state.granted.end_ms,
            live,
            trouble: state.trouble.as_ref().map(ToString::to_string),
            store_offset_ms: offset_ms,
            clock_skew_ms: skew_ms,
            peers,
            clock_alert: skew_ms.zip(alert_ms).is_some_and(|(skew_ms, alert_ms)| skew_ms.unsigned_abs() > alert_ms),
        }
    }

    /// Whether the schemes have a window just now, and may stamp in it.
    fn in_window(&self) -> bool {
        let state = self.state();
        let Granted { start_ms, end_ms, halted, sent_boot_ms, .. } = state.granted;
        let plan = self.plan(state.on_reserve);
        let now_ms = plan.clock.unix_ms();
        let begun = start_ms <= now_ms.saturating_add(plan.terms.max_ahead_ms);
        begun && !halted && now_ms < end_ms.min(plan.stop_wall_ms(sent_boot_ms))
    }

    /// One attempt to get more time, or any.
    async fn attempt(&self) -> Result<(), StoreError> {
        if self.stepped_back() {
            self.state().giving_up = true;
        }
        let (lease, on_reserve, giving_up) = {
            let state = self.state();
            (state.lease.clone(), state.on_reserve, state.giving_up)
        };
        let Some(lease) = lease else { return self.claim().await };
        match self.renew(&lease, on_reserve).await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable && !on_reserve && !self.in_window() => {
                self.claim_from_reserve(error).await
            }
            // Only now: while the store says nothing there is no other worker id, and the window is as good as before.
            Ok(()) if giving_up => self.begin_anew().await,
            Ok(()) if on_reserve && self.home_is_due() => match self.go_home().await {
                Err(error) if self.posts.home.is_ruled_out_by(&error) => self.stop_on_reserve(error).await,
                // Not yet: the reserve serves on.
                _ => Ok(()),
            },
            other => other,
        }
    }

    /// Gives the worker id back, and claims another.
    async fn begin_anew(&self) -> Result<(), StoreError> {
        let spent = self.halt();
        self.state().previous = None;
        if let Some(spent) = spent {
            // If it cannot be told, the id rests until its window is over. The claim says how the store is.
            let _ = self.give_back(spent).await;
        }
        self.claim().await
    }

    async fn renew(&self, lease: &Lease, on_reserve: bool) -> Result<(), StoreError> {
        let plan = self.plan(on_reserve);
        let claim = plan.renew(lease).await?;
        let granted = plan.granted(&claim);
        if let Some(held) = &mut self.state().lease {
            held.clone_from(&claim.lease);
        }
        self.extend(granted);
        self.state().comparison = plan.compare(&claim).await;
        Ok(())
    }

    async fn claim(&self) -> Result<(), StoreError> {
        let previous = self.state().previous;
        let home = &self.posts.home;
        match home.claim(previous).await {
            Ok(claim) => {
                let comparison = home.compare(&claim).await;
                self.grant(claim, false);
                self.state().comparison = comparison;
                Ok(())
            }
            Err(error) if error.kind() == StoreErrorKind::Unavailable && !self.in_window() => {
                self.claim_from_reserve(error).await
            }
            Err(error) if self.state().on_reserve && home.is_ruled_out_by(&error) => self.stop_on_reserve(error).await,
            Err(error) => Err(error),
        }
    }

    /// The window is over and the store at home says nothing: `error`. That is the one to tell if there is no reserve either.
    async fn claim_from_reserve(&self, error: StoreError) -> Result<(), StoreError> {
        let reserve = self.posts.reserve.as_ref().filter(|_| !self.state().barred);
        let Some(reserve) = reserve else { return Err(error) };
        let claim = reserve.claim(None).await.map_err(|_| error)?;
        let comparison = reserve.compare(&claim).await;
        self.grant(claim, true);
        let mut state = self.state();
        state.comparison = comparison;
        state.next_home_boot_ms = reserve.clock.boot_ms().saturating_add(HOME_PAUSE_MS);
        Ok(())
    }

    /// The store at home knows another config than the one by which this process mints: nothing more is made by it, whatever the
    /// reserve gives.
    async fn stop_on_reserve(&self, error: StoreError) -> Result<(), StoreError> {
        self.state().barred = true;
        if let Some(spent) = self.halt() {
            // If it cannot be told, the id rests until its window is over.
            let _ = self.give_back(spent).await;
        }
        Err(error)
    }

    fn home_is_due(&self) -> bool {
        let boot_ms = self.posts.home.clock.boot_ms();
        let mut state = self.state();
        let due = boot_ms >= state.next_home_boot_ms;
        if due {
            state.next_home_boot_ms = boot_ms.saturating_add(HOME_PAUSE_MS);
        }
        due
    }

    /// Claims at home and gives the reserve back.
    async fn go_home(&self) -> Result<(), StoreError> {
        let previous = self.state().previous;
        let claim = self.posts.home.claim(previous).await?;
        let comparison = self.posts.home.compare(&claim).await;
        let spent = self.halt();
        self.grant(claim, false);
        self.state().comparison = comparison;
        match spent {
            Some(spent) => self.give_back(spent).await,
            None => Ok(()),
        }
    }

    /// Whether the wall clock was set back by more than the config allows since the last look.
    fn stepped_back(&self) -> bool {
        let home = &self.posts.home;
        let now = Sight::of(&*home.clock);
        let before = std::mem::replace(&mut self.state().seen, now);
        let limit_ms = home.clocks.as_ref().map(|clocks| clocks.limits.release_ms);
        let by_ms = now.back_since_ms(before);
        let too_far = limit_ms.is_some_and(|limit_ms| by_ms > limit_ms);
        if too_far {
            telemetry::step_back(&home.pool.name, by_ms);
        }
        too_far
    }

    /// Forgets a lease that is somebody else's by now.
    fn leave(&self) {
        let mut state = self.state();
        state.lease = None;
        let (worker, on_reserve) = (state.granted.worker, state.on_reserve);
        drop(state);
        if let Some(clocks) = &self.plan(on_reserve).clocks {
            clocks.left(worker);
        }
    }

    /// Stops every scheme until the next grant. What it answers with is to be given back.
    fn halt(&self) -> Option<Spent> {
        self.spent(&mut self.state())
    }

    /// The same for good: nothing is granted or minted any more, whoever is in the middle of it.
    fn end(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.ended = true;
        let spent = self.spent(&mut state);
        self.leased.iter().for_each(|scheme| scheme.shut());
        state.spent = state.spent.take().or(spent);
        state
    }

    /// The lock is held from the first scheme's halt until the lease is taken.
    fn spent(&self, state: &mut State) -> Option<Spent> {
        let first_unused_ms = self.leased.iter().filter_map(|scheme| scheme.halt()).max();
        state.granted.halted = true;
        let (lease, on_reserve) = (state.lease.take()?, state.on_reserve);
        let first_unused_ms = first_unused_ms.unwrap_or(lease.window.start);
        Some(Spent { lease, on_reserve, first_unused_ms })
    }

    /// Gives a worker id back, in one attempt.
    async fn give_back(&self, spent: Spent) -> Result<(), StoreError> {
        let Spent { lease, on_reserve, first_unused_ms } = spent;
        self.plan(on_reserve).release(lease, first_unused_ms).await
    }

    /// Moves every scheme to a new claim. After the end nobody is there to mint by it: its worker id rests until it expires.
    fn grant(&self, claim: Claim, on_reserve: bool) {
        let granted = self.plan(on_reserve).granted(&claim);
        let window = claim.lease.window.start..granted.end_ms;
        let mut state = self.state();
        if state.ended {
            return;
        }
        for scheme in &self.leased {
            scheme.grant(granted.worker, window.clone(), granted.stop_wall_ms);
        }
        state.granted = granted;
        state.giving_up = false;
        if !on_reserve {
            state.barred = false;
            state.previous = Some(claim.lease.fence.token);
        }
        state.lease = Some(claim.lease);
        state.on_reserve = on_reserve;
    }

    /// Tells every scheme how far it may go by now.
    fn extend(&self, granted: Granted) {
        let mut state = self.state();
        if state.granted.halted {
            return;
        }
        for scheme in &self.leased {
            scheme.extend(granted.end_ms, granted.stop_wall_ms);
        }
        state.granted = granted;
    }

    /// Nothing new from the store. If the wall clock was set back meanwhile, the schemes would go on for too long by it: the
    /// strict rule counts on the other clock.
    fn keep_to_the_stop(&self) {
        let (granted, on_reserve) = {
            let state = self.state();
            (state.granted, state.on_reserve)
        };
        let stop_wall_ms = self.plan(on_reserve).stop_wall_ms(granted.sent_boot_ms);
        if stop_wall_ms < granted.stop_wall_ms {
            self.extend(Granted { stop_wall_ms, ..granted });
        }
    }

    fn note(&self, outcome: Result<(), StoreError>) -> Option<Arc<StoreError>> {
        let Err(error) = outcome else {
            self.state().trouble = None;
            self.tell(None);
            return None;
        };
        let error = Arc::new(error);
        self.keep_to_the_stop();
        for scheme in &self.leased {
            scheme.trouble(Arc::clone(&error));
        }
        self.state().trouble = Some(Arc::clone(&error));
        self.tell(Some(&error));
        Some(error)
    }

    /// Tells whoever watches this process.
    fn tell(&self, error: Option<&StoreError>) {
        let (health, on_reserve) = (self.health(), self.state().on_reserve);
        let plan = self.plan(on_reserve);
        let held = plan.clocks.as_ref().and_then(|clocks| clocks.held());
        let workers = (plan.pool.block.end.saturating_sub(plan.pool.block.start), held);
        telemetry::lease(&health, &Post { home: &self.posts.home.pool.name, lane: self.posts.lane, workers }, error);
    }

    /// The end of a process whose config says so: nothing is minted any more, whatever the hook does.
    fn exit(&self, error: &StoreError) {
        // What is left is given back by `close`, if the application gets that far.
        let worker = self.end().granted.worker;
        let pool = &self.posts.home.pool.name;
        (self.posts.exit.0)(&format!("pool {pool}: the lease on worker id {worker} is lost: {error}"));
    }
}

/// Whether a scheme that would refuse so is in working order: a full unit is over by itself, and at once.
fn mints(refusal: Option<MintError>) -> bool {
    match refusal {
        None => true,
        Some(MintError::Exhausted { retry_ms }) => u64::from(retry_ms) <= RETRY_MS_MAX,
        Some(_) => false,
    }
}

/// The task itself.
async fn keep(shared: Arc<Shared>) {
    let renew_ms = |shared: &Shared| shared.plan(shared.state().on_reserve).renew_ms;
    let mut pause_ms = renew_ms(&shared);
    loop {
        tokio::select! {
            // In this order, or chance would decide, and no run of a simulation could be repeated.
            biased;
            () = shared.stop.notified() => return,
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
        }
        let outcome = tokio::select! {
            biased;
            // What it would answer is of no use any more: a release comes next.
            () = shared.stop.notified() => return,
            outcome = shared.attempt() => outcome,
        };
        let Some(error) = shared.note(outcome) else {
            pause_ms = renew_ms(&shared);
            continue;
        };
        let held = shared.state().lease.is_some();
        let fenced = held && matches!(error.kind(), StoreErrorKind::Fenced | StoreErrorKind::RolledBack);
        if shared.posts.on_lost == OnLeaseLost::Exit && (fenced || !shared.in_window()) {
            return shared.exit(&error);
        }
        pause_ms = RETRY_MS_MAX.min(renew_ms(&shared));
        if fenced {
            // The window stays ours to its end, whoever holds the worker id now: windows never overlap. The next claim
            // moves every scheme to the new one.
            shared.leave();
            pause_ms = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        ops::Range,
        sync::{Condvar, atomic::AtomicBool},
    };

    use async_trait::async_trait;
    use mintage_backends::Memory;
    use mintage_core::{
        Grant, Holder, LeaseRow, LeaseStore, LeaseTerms, ManualClock, PoolLimits, WorkerChoice, WorkerPool,
    };

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    /// What the keeper's task and a closing caller do at the same time, brought into one order.
    #[derive(Debug, Default)]
    struct Meeting {
        /// Whether the second claim may be answered.
        open: Mutex<bool>,
        moved: Condvar,
        /// First millisecond that the claim of each worker id left unused.
        unused_ms: Mutex<BTreeMap<u32, u64>>,
        released: Mutex<Vec<(u32, u64)>>,
    }

    /// A scheme that mints ten milliseconds full the moment it is granted a window. Its first halt lets the claim on its way be
    /// answered, and gives the answer time to arrive.
    #[derive(Debug)]
    struct Busy {
        meeting: Arc<Meeting>,
        closed: AtomicBool,
        state: Mutex<Option<(u32, u64)>>,
    }

    impl Leased for Busy {
        fn workers(&self) -> u64 {
            1024
        }

        fn grant(&self, worker: u32, window: Range<u64>, _: u64) {
            if self.closed.load(std::sync::atomic::Ordering::SeqCst) {
                return;
            }
            let unused_ms = window.start + 10;
            self.meeting.unused_ms.lock().unwrap().insert(worker, unused_ms);
            *self.state.lock().unwrap() = Some((worker, unused_ms));
        }

        fn extend(&self, _: u64, _: u64) {}

        fn trouble(&self, _: Arc<StoreError>) {}

        fn halt(&self) -> Option<u64> {
            let unused_ms = self.state.lock().unwrap().take().map(|(_, unused_ms)| unused_ms);
            let opened = std::mem::replace(&mut *self.meeting.open.lock().unwrap(), true);
            if !opened {
                self.meeting.moved.notify_all();
                std::thread::sleep(Duration::from_millis(300));
            }
            unused_ms
        }

        fn shut(&self) {
            self.closed.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// Says `Fenced` to every renewal, and holds the second claim up, and its thread with it.
    #[derive(Debug)]
    struct Gate {
        meeting: Arc<Meeting>,
        inner: Memory,
    }

    #[async_trait]
    impl LeaseStore for Gate {
        async fn acquire(
            &self,
            pool: &WorkerPool,
            which: WorkerChoice,
            holder: &Holder,
            terms: &LeaseTerms,
        ) -> Result<Lease, StoreError> {
            if !self.meeting.unused_ms.lock().unwrap().is_empty() {
                let patience = Duration::from_secs(10);
                let open = self.meeting.open.lock().unwrap();
                drop(self.meeting.moved.wait_timeout_while(open, patience, |open| !*open).unwrap());
            }
            self.inner.acquire(pool, which, holder, terms).await
        }

        async fn renew(&self, _: &Lease, _: &Holder, _: &LeaseTerms) -> Result<Lease, StoreError> {
            Err(StoreError::new(StoreErrorKind::Fenced, "a test wants it so"))
        }

        async fn release(&self, lease: Lease, first_unused_ms: u64, _: &LeaseTerms) -> Result<(), StoreError> {
            self.meeting.released.lock().unwrap().push((lease.worker, first_unused_ms));
            Ok(())
        }

        async fn revoke(&self, _: &WorkerPool, _: u32) -> Result<(), StoreError> {
            Ok(())
        }

        async fn bump(&self, _: &WorkerPool) -> Result<(), StoreError> {
            Ok(())
        }

        async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
            self.inner.leases(pool).await
        }

        async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
            self.inner.history(pool, at_ms).await
        }
    }

    /// G5. A poll of the keeper's task goes on elsewhere while `close` gives the lease back: whatever it is granted must not be
    /// released with what an earlier claim had used.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_released_that_is_minted_from_meanwhile() {
        let clock = ManualClock::at(NOW_MS);
        let meeting = Arc::new(Meeting::default());
        let store = Arc::new(Gate { meeting: Arc::clone(&meeting), inner: Memory::new(Arc::new(clock.clone())) });
        let mut pool = WorkerPool::new("main", 0..1024);
        pool.limits = PoolLimits::default();
        let home = KeeperPlan {
            store,
            pool,
            which: WorkerChoice::Any,
            terms: LeaseTerms::default(),
            renew_ms: 50,
            timeout_ms: 30_000,
            stop_ms: None,
            instance: "one".to_owned(),
            clock: Arc::new(clock.clone()),
            records: Records {
                entities: Vec::new(),
                others: Vec::new(),
                regions: Default::default(),
                mark: None,
                settled: AtomicBool::new(true),
            },
            clocks: None,
        };
        let posts = Posts { home, reserve: None, lane: 0, on_lost: OnLeaseLost::Stop, exit: Exit(Arc::new(|_| {})) };
        let claim = posts.home.claim(None).await.unwrap();
        let busy =
            Arc::new(Busy { meeting: Arc::clone(&meeting), closed: AtomicBool::new(false), state: Mutex::default() });
        let keeper = Keeper::start(posts, claim, false, Comparison::default(), vec![busy as Arc<dyn Leased>]);
        // The renewal is refused, and the next claim hangs in a poll that nobody can abort.
        clock.advance(1_000);
        // Timers are driven by a worker that has something to do; the other one is held up.
        let busy = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        keeper.close().await.unwrap();
        busy.abort();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (unused_ms, released) = (meeting.unused_ms.lock().unwrap(), meeting.released.lock().unwrap());
        for (worker, first_unused_ms) in released.iter() {
            let unused_ms = unused_ms.get(worker).copied().unwrap_or(0);
            assert!(*first_unused_ms >= unused_ms, "worker id {worker}: {first_unused_ms} of {unused_ms}");
        }
    }
}
