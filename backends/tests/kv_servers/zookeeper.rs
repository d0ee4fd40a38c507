//! ZooKeeper: the laws, and sessions that end.

use mintage_core::{ManualClock, plugin::Secret, plugin::Tls};
use mintage_servers_for_tests::{Certificates, ZooKeeper};
use zookeeper_client::Client;

use super::*;

/// Time is each process's own here, so the laws need not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_keeps_the_laws() {
    let Some(server) = ZooKeeper::start() else { return };
    let clock = ManualClock::at(SystemClock.unix_ms());
    let store = open_within(server.url(), Arc::new(clock.clone()), TIMEOUT_MS).await.unwrap();
    assert!(!store.leases.as_ref().unwrap().has_clock());
    keeps_the_laws(store, async |ms| clock.advance(ms), Trial { at_once: 64, cycles: 200 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_name_their_process() {
    let Some(server) = ZooKeeper::start() else { return };
    who_got_a_number(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_at_once() {
    // One client may have 60 connections by default, and all come from this machine.
    let Some(server) = ZooKeeper::start_with(&["maxClientCnxns=0"]) else { return };
    many_at_once(&format!("{}/deep/below", server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused() {
    let Some(server) = ZooKeeper::start() else { return };
    a_server_that_refuses_is_tried_again(server.url(), server.port()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped() {
    let Some(server) = ZooKeeper::start() else { return };
    a_stopped_server_is_cut_off(&server, server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_lost() {
    let Some(server) = ZooKeeper::start() else { return };
    an_answer_is_lost(server.url(), server.port(), b"{\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed() {
    let Some(server) = ZooKeeper::start() else { return };
    a_kill_keeps_what_was_acknowledged(&server, server.url()).await;
    let store = open(server.url()).await.unwrap();
    assert_eq!(allocate(&store, &Sequence::new("killed", 1), 1).await.unwrap().start, 501);
}

/// Nothing hangs on the session: after it has expired, the holder renews through a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_expires() {
    let Some(server) = ZooKeeper::start() else { return };
    let proxy = Proxy::start(server.port());
    // The session is asked to live as long as the timeout.
    let store = open_within(&proxy.url_of(server.url()), Arc::new(SystemClock), 1_500).await.unwrap();
    let pool = pool("main", 2);
    let lease = claim(&store, &pool, 1).await.unwrap();
    proxy.set(Fault::Refuse);
    proxy.cut();
    sleep(3_500).await;
    let store = store.leases.as_ref().unwrap();
    assert_eq!(store.renew(&lease, &holder(1), &terms()).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    proxy.heal();
    let renewed = store.renew(&lease, &holder(1), &terms()).await.unwrap();
    assert_eq!((renewed.fence, renewed.window.start), (lease.fence, lease.window.start));
}

#[tokio::test]
async fn passwords_stay_out_of_sight() {
    let Some(server) = ZooKeeper::start() else { return };
    let url = |user: &str| format!("zookeeper://{user}@127.0.0.1:{}/kept", server.port());
    let store = open(&url("me:s3cret")).await.unwrap();
    assert!(!format!("{store:?}").contains("s3cret"), "{store:?}");
    let told = open(&url("me:wr0ng")).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Refused, "{told}");
    assert!(!format!("{told} {told:?}").contains("wr0ng"), "{told:?}");
    a_password_beside_the_url(&url("me")).await;
}

/// ZooKeeper counts its nodes; three are its own.
fn nodes_in(server: &ZooKeeper) -> u64 {
    let told = server.four_letters("srvr");
    told.lines().find_map(|line| line.strip_prefix("Node count: ")).unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored() {
    let Some(server) = ZooKeeper::start() else { return };
    a_restored_data_folder_repeats_nothing(&server, server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_makes_nothing() {
    let Some(server) = ZooKeeper::start() else { return };
    let before = nodes_in(&server);
    readers_make_nothing(&format!("{}/deep/below", server.url()), || nodes_in(&server) == before).await;
}

/// Everything is deleted under a process that uses it, the place of the records too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied() {
    let Some(server) = ZooKeeper::start() else { return };
    let store = open(server.url()).await.unwrap();
    let orders = Sequence::new("orders", 1);
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    delete_all(&server).await;
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    open(server.url()).await.unwrap();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    assert_eq!(claim(&store, &pool("main", 2), 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
}

/// As `deleteall /mintage` of ZooKeeper's own client does.
async fn delete_all(server: &ZooKeeper) {
    let client = Client::connect(&format!("127.0.0.1:{}", server.port())).await.unwrap();
    for name in client.list_children("/mintage").await.unwrap() {
        client.delete(&format!("/mintage/{name}"), None).await.unwrap();
    }
    client.delete("/mintage", None).await.unwrap();
}

/// The leader of three dies, and the next one stands still: calls go on with the others, and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_moves() {
    let Some(ensemble) = ZooKeeper::ensemble() else { return };
    let store = open_within(ensemble.url(), Arc::new(SystemClock), 15_000).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), pool("main", 16));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    let (mut ranges, mut leases) = (Vec::new(), Vec::new());
    for nth in 0..3 {
        let leader = ensemble.leader().unwrap();
        match nth {
            0 => {}
            1 => leader.kill9(),
            _ => leader.stop(),
        }
        ranges.push(until_it_answers(async || allocate(&store, &orders, 10).await).await);
        leases.push(until_it_answers(async || claim(&store, &pool, nth).await).await);
        match nth {
            0 => {}
            1 => leader.restart(),
            _ => leader.cont(),
        }
    }
    assert_disjoint(ranges);
    assert_windows_disjoint(&leases);
}

/// A session that breaks with its server cuts off the call that is on the way.
async fn until_it_answers<T>(call: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..100 {
        match call().await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => sleep(100).await,
            other => return other.unwrap(),
        }
    }
    panic!("it does not come back");
}

/// Two servers have decided, and the third has not heard of it yet. Whoever asks that one learns it all the same: it was
/// acknowledged before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lags_answers_nothing_old() {
    let Some(ensemble) = ZooKeeper::ensemble_that_lags() else { return };
    let [late, one, other] = ensemble.members() else { panic!("three members") };
    let leads = |member: &ZooKeeper| member.four_letters("srvr").contains("Mode: leader");
    assert!(!leads(late) && (leads(one) || leads(other)), "the one that lags must follow");
    let (writer, reader) = (open(one.url()).await.unwrap(), open(late.url()).await.unwrap());
    ensemble.first_lags(400);
    let pool = pool("main", 2);
    for round in 0..3 {
        let sequence = Sequence::new(format!("round-{round}"), 1);
        writer.ranges.as_ref().unwrap().create(&sequence).await.unwrap();
        // What was just made is there: without asking, it would be taken for deleted.
        assert_eq!(allocate(&reader, &sequence, 10).await.unwrap().start, 1);
        reader.ranges.as_ref().unwrap().create(&sequence).await.unwrap();
        let by_name = writer.formats.as_ref().unwrap();
        by_name.pin(&format!("round-{round}"), &Format::of("segment")).await.unwrap();
        let pinned = reader.formats.as_ref().unwrap().pinned(&format!("round-{round}")).await.unwrap();
        assert_eq!(pinned, Some(Format::of("segment")));
    }
    let lease = claim(&writer, &pool, 1).await.unwrap();
    let listed = reader.leases.as_ref().unwrap().leases(&pool).await.unwrap();
    assert_eq!(listed.first().map(|row| (row.worker, row.held)), Some((lease.worker, true)));
}

/// The server proves who it is to whoever trusts its authority, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted() {
    let (Some(certificates), Some(strangers)) = (Certificates::make(), Certificates::make()) else { return };
    let Some(server) = ZooKeeper::encrypted(&certificates) else { return };
    let at_port = |port: u16| at(&format!("zookeeper://me@127.0.0.1:{port}/kept"));
    let (factory, mut address) = at_port(server.secure_port().unwrap());
    address.password = Some(Secret::new("s3cret"));
    address.timeout_ms = 4_000;
    // In the clear, on the word of the system's authorities, on that of another one.
    for tls in [None, Some(Tls::default()), Some(Tls::trusting(Some(strangers.authority())))] {
        address.tls = tls.clone();
        let told = factory.init(&address).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "{told}");
        assert!(tls.is_none() || told.to_string().contains("vouches for its certificate"), "{told}");
        assert!(!format!("{told} {told:?}").contains("s3cret"), "{told:?}");
    }
    address.tls = Some(Tls::trusting(Some(certificates.key())));
    assert_eq!(factory.init(&address).await.unwrap_err().kind(), StoreErrorKind::Refused, "no certificate");
    address.tls = Some(Tls::trusting(Some(certificates.authority())));
    address.timeout_ms = 20_000;
    assert!(factory.init(&address).await.unwrap());
    let store = factory.open(&address).await.unwrap();
    let lease = claim(&store, &pool("main", 2), 1).await.unwrap();
    store.leases.as_ref().unwrap().renew(&lease, &holder(1), &terms()).await.unwrap();
    // The nodes are for this user alone, and the other port still takes whoever asks.
    address.password = Some(Secret::new("wr0ng"));
    assert_eq!(factory.open(&address).await.unwrap_err().kind(), StoreErrorKind::Refused);
    // An encrypted connection to the port for the others.
    let (_, mut plain) = at_port(server.port());
    plain.tls.clone_from(&address.tls);
    plain.password = Some(Secret::new("s3cret"));
    plain.timeout_ms = 4_000;
    let told = factory.init(&plain).await.unwrap_err();
    assert!(told.to_string().contains("secureClientPort"), "{told}");
}

/// Its authority vouches for a certificate, and not for this server's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_not_believed() {
    let Some(certificates) = Certificates::make_for("DNS:elsewhere.example") else { return };
    let Some(server) = ZooKeeper::encrypted(&certificates) else { return };
    let (factory, mut address) = at(&format!("zookeeper://127.0.0.1:{}", server.secure_port().unwrap()));
    address.timeout_ms = 4_000;
    address.tls = Some(Tls::trusting(Some(certificates.authority())));
    let told = factory.init(&address).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::Unavailable && told.to_string().contains("name"), "{told}");
}
