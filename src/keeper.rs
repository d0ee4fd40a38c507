//! The keeper: one owned task per worker pool that renews the lease, stops minting by moving its bound, claims anew after a
//! loss, and releases on close.
//!
//! **What happens when the store is down?** The holder mints on to the end of its window and the keeper keeps asking. When the
//! window is over, `mint` says `LeaseLapsed`. When the store is back, the renewal succeeds if nobody took the id meanwhile;
//! otherwise it is fenced, and the keeper claims another: the old window is used up to its end or to the new claim,
//! whichever comes first. Uniqueness never depends on any of this being timely.

use std::{
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use mintage_core::{
    Clock, Holder, Lease, LeaseStore, LeaseTerms, Leased, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
};
use mintage_schemes::{Entropy, fork::Birth};
use tokio::{sync::Notify, task::JoinHandle};

/// Longest pause between two attempts while the store does not answer.
const RETRY_MS_MAX: u64 = 1_000;
/// How much longer than the store's own timeout a call is awaited: the store knows better what went wrong. A store that
/// keeps no timeout must not hold the keeper for ever.
const ANSWER_GRACE_MS: u64 = 500;
/// How long the task may take to end, in milliseconds. It does at once, unless nobody drives the runtime it was started on.
const END_MS_MAX: u64 = 1_000;

/// What a keeper needs to know.
#[derive(Debug)]
pub(crate) struct KeeperPlan {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) pool: WorkerPool,
    pub(crate) which: WorkerChoice,
    pub(crate) terms: LeaseTerms,
    pub(crate) renew_ms: u64,
    /// How long one call to the store may take.
    pub(crate) timeout_ms: u64,
    /// Stop this long after the last successful request was sent, even though the window goes on: the strict rule.
    pub(crate) stop_ms: Option<u64>,
    pub(crate) instance: String,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Holds one lease for one process and pool, shared by every entity of the pool (rule R2).
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// How a pool's lease stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaseHealth {
    /// The pool.
    pub pool: String,
    /// The worker id that ids carry.
    pub worker: u32,
    /// End of the window granted so far, Unix ms.
    pub window_end_ms: u64,
    /// Whether minting is possible by this lease just now: also after another holder has taken the worker id, to the end of
    /// the window.
    pub live: bool,
    /// Why the last renewal or claim failed, if it did.
    pub trouble: Option<String>,
}

#[derive(Debug)]
struct Shared {
    plan: KeeperPlan,
    leased: Vec<Arc<dyn Leased>>,
    birth: Birth,
    stop: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What can be renewed and released; `None` once it was lost.
    lease: Option<Lease>,
    granted: Granted,
    trouble: Option<Arc<StoreError>>,
}

/// What the schemes may use: theirs to its end, whoever holds the worker id by then.
#[derive(Clone, Copy, Debug)]
struct Granted {
    worker: u32,
    end_ms: u64,
    /// Named in the next claim, to get the same worker id back after a bump.
    token: u128,
    /// When the request behind it was sent, on the clock that counts suspend.
    sent_boot_ms: u64,
    /// The wall time at which the schemes were told to stop.
    stop_wall_ms: u64,
}

/// A lease that was just granted, and when it was asked for.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    sent_boot_ms: u64,
}

impl KeeperPlan {
    /// Claims a worker id. An answer that got lost is abandoned with its token, never guessed.
    pub(crate) async fn claim(&self, previous: Option<u128>) -> Result<Claim, StoreError> {
        let token =
            Entropy::os().draw_u128().map_err(|error| StoreError::new(StoreErrorKind::Refused, error.to_string()))?;
        let mut holder = Holder::new(token, self.instance.clone(), self.clock.unix_ms());
        holder.previous = previous;
        let sent_boot_ms = self.clock.boot_ms();
        let lease = self.answered(self.store.acquire(&self.pool, self.which, &holder, &self.terms)).await?;
        self.admit(&lease, token)?;
        Ok(Claim { lease, sent_boot_ms })
    }

    /// Asks for more time.
    async fn renew(&self, lease: &Lease) -> Result<Claim, StoreError> {
        let holder = Holder::new(lease.fence.token, self.instance.clone(), self.clock.unix_ms());
        let sent_boot_ms = self.clock.boot_ms();
        let longer = self.answered(self.store.renew(lease, &holder, &self.terms)).await?;
        self.admit(&longer, lease.fence.token)?;
        if (longer.worker, longer.fence, longer.window.start) != (lease.worker, lease.fence, lease.window.start) {
            return Err(self.broken(&longer));
        }
        Ok(Claim { lease: longer, sent_boot_ms })
    }

    /// Believes no store blindly: a worker id outside our block is somebody else's.
    fn admit(&self, lease: &Lease, token: u128) -> Result<(), StoreError> {
        let ours = self.pool.block.contains(&lease.worker) && lease.fence.token == token && !lease.window.is_empty();
        if ours { Ok(()) } else { Err(self.broken(lease)) }
    }

    fn broken(&self, lease: &Lease) -> StoreError {
        let Range { start, end } = self.pool.block;
        StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "pool {}: asked for a worker id of {start}..{end}, the store answered with id {} and the window {:?}: it breaks \
                 the contract of a lease store, use another",
                self.pool.name, lease.worker, lease.window
            ),
        )
    }

    /// Gives a worker id back, in one attempt.
    pub(crate) async fn release(&self, lease: Lease, first_unused_ms: u64) -> Result<(), StoreError> {
        self.answered(self.store.release(lease, first_unused_ms, &self.terms)).await
    }

    /// The store's answer, or its absence. Cutting a call off is safe: a lost claim is abandoned, a renewal can be asked again.
    async fn answered<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let limit_ms = self.timeout_ms.saturating_add(ANSWER_GRACE_MS);
        tokio::time::timeout(Duration::from_millis(limit_ms), call).await.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!(
                    "no answer from the store of pool {} within {limit_ms} ms: see whether it is up",
                    self.pool.name
                ),
            ))
        })
    }

    fn granted(&self, lease: &Lease, sent_boot_ms: u64) -> Granted {
        let stop_wall_ms = self.stop_wall_ms(sent_boot_ms);
        Granted { worker: lease.worker, end_ms: lease.window.end, token: lease.fence.token, sent_boot_ms, stop_wall_ms }
    }

    /// The wall time at which to stop. Measured from before the request was sent, on the clock that counts suspend.
    fn stop_wall_ms(&self, sent_boot_ms: u64) -> u64 {
        let Some(stop_ms) = self.stop_ms else { return u64::MAX };
        let elapsed_ms = self.clock.boot_ms().saturating_sub(sent_boot_ms);
        self.clock.unix_ms().saturating_add(stop_ms.saturating_sub(elapsed_ms))
    }
}

impl Keeper {
    /// Grants the first window to `leased` and keeps it alive until `close`.
    pub(crate) fn start(plan: KeeperPlan, claim: Claim, leased: Vec<Arc<dyn Leased>>) -> Self {
        let granted = plan.granted(&claim.lease, claim.sent_boot_ms);
        let state = Mutex::new(State { lease: Some(claim.lease.clone()), granted, trouble: None });
        let birth = Birth::here();
        let shared = Arc::new(Shared { plan, leased, birth, stop: Notify::new(), state });
        shared.grant(claim);
        let mut work = Box::pin(keep(Arc::clone(&shared)));
        // In a forked child the task stays where it was: the lease and the store's connections are the parent's (rule R5).
        let task = poll_fn(move |context| if birth.forked() { Poll::Pending } else { work.as_mut().poll(context) });
        Self { shared, task: Mutex::new(Some(tokio::spawn(task))) }
    }

    /// How the lease stands.
    pub(crate) fn health(&self) -> LeaseHealth {
        let plan = &self.shared.plan;
        let state = self.shared.state();
        let Granted { worker, end_ms, sent_boot_ms, .. } = state.granted;
        LeaseHealth {
            pool: plan.pool.name.clone(),
            worker,
            window_end_ms: end_ms,
            live: plan.clock.unix_ms() < end_ms.min(plan.stop_wall_ms(sent_boot_ms)),
            trouble: state.trouble.as_ref().map(ToString::to_string),
        }
    }

    /// Ends the task, stops every scheme of the pool, and gives the worker id back. In a forked child it does nothing: the
    /// lease is the parent's (rule R5).
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
        // First nobody can mint any more; only then is it known what was used.
        let first_unused_ms = self.shared.leased.iter().filter_map(|scheme| scheme.halt()).max();
        for scheme in &self.shared.leased {
            scheme.shut();
        }
        let lease = self.shared.state().lease.take();
        let Some(lease) = lease else { return Ok(()) };
        let first_unused_ms = first_unused_ms.unwrap_or(lease.window.start);
        match self.shared.plan.release(lease, first_unused_ms).await {
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
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(&self, lease: &Lease) -> Result<(), StoreError> {
        let Claim { lease, sent_boot_ms } = self.plan.renew(lease).await?;
        let granted = self.plan.granted(&lease, sent_boot_ms);
        self.state().lease = Some(lease);
        self.extend(granted);
        Ok(())
    }

    async fn claim(&self) -> Result<(), StoreError> {
        let previous = self.state().granted.token;
        let claim = self.plan.claim(Some(previous)).await?;
        self.grant(claim);
        Ok(())
    }

    /// Moves every scheme to a new claim.
    fn grant(&self, claim: Claim) {
        let granted = self.plan.granted(&claim.lease, claim.sent_boot_ms);
        for scheme in &self.leased {
            scheme.grant(granted.worker, claim.lease.window.clone(), granted.stop_wall_ms);
        }
        let mut state = self.state();
        state.granted = granted;
        state.lease = Some(claim.lease);
    }

    /// Tells every scheme how far it may go by now.
    fn extend(&self, granted: Granted) {
        for scheme in &self.leased {
            scheme.extend(granted.end_ms, granted.stop_wall_ms);
        }
        self.state().granted = granted;
    }

    /// Nothing new from the store. If the wall clock was set back meanwhile, the schemes would go on for too long by it: the
    /// strict rule counts on the other clock.
    fn keep_to_the_stop(&self) {
        let granted = self.state().granted;
        let stop_wall_ms = self.plan.stop_wall_ms(granted.sent_boot_ms);
        if stop_wall_ms < granted.stop_wall_ms {
            self.extend(Granted { stop_wall_ms, ..granted });
        }
    }

    fn note(&self, outcome: Result<(), StoreError>) -> Option<StoreErrorKind> {
        match outcome {
            Ok(()) => {
                self.state().trouble = None;
                None
            }
            Err(error) => {
                let kind = error.kind();
                let error = Arc::new(error);
                self.keep_to_the_stop();
                for scheme in &self.leased {
                    scheme.trouble(Arc::clone(&error));
                }
                self.state().trouble = Some(error);
                Some(kind)
            }
        }
    }
}

/// The task itself.
async fn keep(shared: Arc<Shared>) {
    let retry_ms = RETRY_MS_MAX.min(shared.plan.renew_ms);
    let mut pause_ms = shared.plan.renew_ms;
    loop {
        tokio::select! {
            () = shared.stop.notified() => return,
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
        }
        let lease = shared.state().lease.clone();
        let attempt = async {
            match &lease {
                Some(lease) => shared.renew(lease).await,
                None => shared.claim().await,
            }
        };
        let outcome = tokio::select! {
            // What it would answer is of no use any more: a release comes next.
            () = shared.stop.notified() => return,
            outcome = attempt => outcome,
        };
        pause_ms = match shared.note(outcome) {
            None => shared.plan.renew_ms,
            Some(StoreErrorKind::Fenced | StoreErrorKind::RolledBack) if lease.is_some() => {
                // The window stays ours to its end, whoever holds the worker id now: windows never overlap. The next claim
                // moves every scheme to the new one.
                shared.state().lease = None;
                0
            }
            Some(_) => retry_ms,
        };
    }
}
