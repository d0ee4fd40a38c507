//! The keeper: one owned task per worker pool that renews the lease, stops minting by moving its bound, claims anew after a
//! loss, and releases on close.
//!
//! **What happens when the store is down?** The holder mints on to the end of its window and the keeper keeps asking. When the
//! window is over, `mint` says `LeaseLapsed`. When the store is back, the renewal succeeds if nobody took the id meanwhile;
//! otherwise it is fenced, and the keeper claims another: the old window is used up to its end or to the new claim,
//! whichever comes first. Uniqueness never depends on any of this being timely.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mintage_core::{
    Clock, Holder, Lease, LeaseStore, LeaseTerms, Leased, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
};
use mintage_schemes::{Entropy, fork::Birth};
use tokio::{sync::Notify, task::JoinHandle};

/// Longest pause between two attempts while the store does not answer.
const RETRY_MS_MAX: u64 = 1_000;

/// What a keeper needs to know.
#[derive(Debug)]
pub(crate) struct KeeperPlan {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) pool: WorkerPool,
    pub(crate) which: WorkerChoice,
    pub(crate) terms: LeaseTerms,
    pub(crate) renew_ms: u64,
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
    /// The worker id held, if one is.
    pub worker: Option<u32>,
    /// End of the window granted so far, Unix ms.
    pub window_end_ms: u64,
    /// Whether minting is possible by this lease just now.
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
    lease: Option<Lease>,
    /// The token of the last claim, to get the same worker id back after a bump.
    previous: Option<u128>,
    trouble: Option<Arc<StoreError>>,
}

impl KeeperPlan {
    /// Claims a worker id. An answer that got lost is abandoned with its token, never guessed.
    pub(crate) async fn claim(&self, previous: Option<u128>) -> Result<(Lease, u64), StoreError> {
        let token = Entropy::os().draw_u128().map_err(|error| StoreError::new(StoreErrorKind::Refused, error.to_string()))?;
        let mut holder = Holder::new(token, self.instance.clone(), self.clock.unix_ms());
        holder.previous = previous;
        let sent_ms = self.clock.boot_ms();
        let lease = self.store.acquire(&self.pool, self.which, &holder, &self.terms).await?;
        Ok((lease, self.stop_wall_ms(sent_ms)))
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
    pub(crate) fn start(plan: KeeperPlan, claimed: (Lease, u64), leased: Vec<Arc<dyn Leased>>) -> Self {
        let (lease, stop_wall_ms) = claimed;
        for scheme in &leased {
            scheme.grant(lease.worker, lease.window.clone(), stop_wall_ms);
        }
        let state = State { previous: Some(lease.fence.token), lease: Some(lease), trouble: None };
        let shared =
            Arc::new(Shared { plan, leased, birth: Birth::here(), stop: Notify::new(), state: Mutex::new(state) });
        let task = tokio::spawn(keep(Arc::clone(&shared)));
        Self { shared, task: Mutex::new(Some(task)) }
    }

    /// How the lease stands.
    pub(crate) fn health(&self) -> LeaseHealth {
        let state = self.shared.state();
        let now_ms = self.shared.plan.clock.unix_ms();
        let window_end_ms = state.lease.as_ref().map_or(0, |lease| lease.window.end);
        LeaseHealth {
            pool: self.shared.plan.pool.name.clone(),
            worker: state.lease.as_ref().map(|lease| lease.worker),
            window_end_ms,
            live: now_ms < window_end_ms,
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
        if let Some(task) = task {
            // It ends after the call in flight, which the store bounds by its timeout. A panic in it was reported by tokio.
            let _ = task.await;
        }
        // First nobody can mint any more; only then is it known what was used.
        let first_unused_ms = self.shared.leased.iter().filter_map(|scheme| scheme.halt()).max();
        for scheme in &self.shared.leased {
            scheme.shut();
        }
        let lease = self.shared.state().lease.take();
        let Some(lease) = lease else { return Ok(()) };
        let first_unused_ms = first_unused_ms.unwrap_or(lease.window.start);
        match self.shared.plan.store.release(lease, first_unused_ms, &self.shared.plan.terms).await {
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
        let holder = Holder::new(lease.fence.token, self.plan.instance.clone(), self.plan.clock.unix_ms());
        let sent_ms = self.plan.clock.boot_ms();
        let renewed = self.plan.store.renew(lease, &holder, &self.plan.terms).await?;
        let stop_wall_ms = self.plan.stop_wall_ms(sent_ms);
        for scheme in &self.leased {
            scheme.extend(renewed.window.end, stop_wall_ms);
        }
        self.state().lease = Some(renewed);
        Ok(())
    }

    async fn claim(&self) -> Result<(), StoreError> {
        let previous = self.state().previous;
        let (lease, stop_wall_ms) = self.plan.claim(previous).await?;
        for scheme in &self.leased {
            scheme.grant(lease.worker, lease.window.clone(), stop_wall_ms);
        }
        let mut state = self.state();
        state.previous = Some(lease.fence.token);
        state.lease = Some(lease);
        Ok(())
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
        let outcome = match &lease {
            Some(lease) => shared.renew(lease).await,
            None => shared.claim().await,
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
