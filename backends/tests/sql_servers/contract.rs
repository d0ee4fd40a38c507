//! Every law of the test kit, on real servers with clocks of their own.

use std::time::Duration;

use mintage_core::testkit::store::{self, Trial};

use crate::{Kind, Server, on_both, open};

on_both!(the_laws_are_kept);

async fn the_laws_are_kept(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let store = open(&server.database("laws")).await;
    let tick = async |ms| tokio::time::sleep(Duration::from_millis(ms)).await;
    store::all(&store, tick, Trial { cycles: 100, ..Trial::default() }).await;
    store::tokens::all(&store, Trial::default()).await;
}
