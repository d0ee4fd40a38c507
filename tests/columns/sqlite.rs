use mintage::{Id, columns::ColumnFault};
use sqlx::SqlitePool;

use crate::{Document, Order, Row, Upload, User, column_error, fault, registry, rows, statement};

const INSERT: &str = "INSERT INTO embedded_ids (id, user_id, document_id, upload_id) VALUES (?, ?, ?, ?)";
const SELECT: &str = "SELECT id, user_id, document_id, upload_id FROM embedded_ids";

async fn pool() -> SqlitePool {
    let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = options.connect("sqlite::memory:").await.unwrap();
    sqlx::query(statement("embedded_ids")).execute(&pool).await.unwrap();
    pool
}

async fn insert(pool: &SqlitePool, row: Row) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT).bind(row.0).bind(row.1).bind(row.2).bind(row.3).execute(pool).await.map(drop)
}

#[tokio::test]
async fn what_goes_in_comes_out_and_sorts_as_ids_do() {
    let pool = pool().await;
    let rows = rows(&registry().await).await;
    for row in rows.iter().rev() {
        insert(&pool, *row).await.unwrap();
    }
    for column in ["id", "user_id", "document_id", "upload_id"] {
        let sql = sqlx::AssertSqlSafe(format!("{SELECT} ORDER BY {column}"));
        let read: Vec<Row> = sqlx::query_as(sql).fetch_all(&pool).await.unwrap();
        assert_eq!(read, rows, "{column}");
    }
    let sql = format!("{SELECT} WHERE id = ? AND user_id = ? AND document_id = ? AND upload_id = ?");
    for row in &rows {
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql.clone())).bind(row.0).bind(row.1).bind(row.2).bind(row.3);
        assert_eq!(query.fetch_one(&pool).await.ok(), Some(*row));
    }
}

#[tokio::test]
async fn null_is_an_option() {
    let pool = pool().await;
    sqlx::query("CREATE TABLE optional (order_id INTEGER, user_id BLOB)").execute(&pool).await.unwrap();
    let some = rows(&registry().await).await[0];
    sqlx::query("INSERT INTO optional VALUES (?, ?)")
        .bind(None::<Id<Order>>)
        .bind(some.1)
        .execute(&pool)
        .await
        .unwrap();
    let read: (Option<Id<Order>>, Option<Id<User>>) =
        sqlx::query_as("SELECT order_id, user_id FROM optional").fetch_one(&pool).await.unwrap();
    assert_eq!(read, (None, Some(some.1)));
    let error = sqlx::query_as::<_, (Id<Order>,)>("SELECT order_id FROM optional").fetch_one(&pool).await.unwrap_err();
    assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_id_is_refused_by_name() {
    let pool = pool().await;
    async fn read<E: mintage::Entity>(pool: &SqlitePool, value: &str) -> sqlx::Error
    where
        Id<E>: Send + Unpin,
    {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {value}"));
        sqlx::query_scalar::<_, Id<E>>(sql).fetch_one(pool).await.unwrap_err()
    }
    let negative = read::<Order>(&pool, "-1").await;
    assert_eq!(fault(&negative), ColumnFault::Negative(-1));
    assert!(column_error(&negative).to_string().starts_with("entity orders: the INTEGER column holds -1"));
    for length in [0, 15, 17] {
        let error = read::<User>(&pool, &format!("zeroblob({length})")).await;
        assert_eq!(fault(&error), ColumnFault::Length { found: length, expected: 16 });
    }
    assert_eq!(fault(&read::<User>(&pool, "zeroblob(16)").await), ColumnFault::Nil);
    assert_eq!(fault(&read::<Document>(&pool, "zeroblob(16)").await), ColumnFault::Nil);
    assert_eq!(fault(&read::<Upload>(&pool, "zeroblob(20)").await), ColumnFault::Nil);
    // Sixteen letters, a fraction, a text: no ids, though SQLite would make some of them.
    for value in ["'sixteen letters!'", "1.5", "17"] {
        let error = read::<User>(&pool, value).await;
        assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{value}: {error:?}");
    }
    for value in ["'7'", "7.5", "x'07'"] {
        let error = read::<Order>(&pool, value).await;
        assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{value}: {error:?}");
    }
}

#[tokio::test]
async fn a_duplicate_is_named_where_the_database_tells_it() {
    let pool = pool().await;
    let registry = registry().await;
    let rows = rows(&registry).await;
    insert(&pool, rows[0]).await.unwrap();
    let (orders, users) = (registry.minter::<Order>().unwrap(), registry.minter::<User>().unwrap());
    let error = insert(&pool, (rows[0].0, rows[1].1, rows[1].2, rows[1].3)).await.unwrap_err();
    let found = orders.duplicate(&error, &[rows[0].0]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("embedded_ids.id", Some(rows[0].0)));
    assert_eq!(found.anatomy.unwrap(), orders.anatomy(rows[0].0));
    assert_eq!(orders.duplicate(&error, &[]).unwrap().id, None, "the value is not shown");
    assert_eq!(orders.duplicate(&error, &[rows[0].0, rows[1].0]).unwrap().id, None, "nor which of several");

    let error = insert(&pool, (rows[1].0, rows[0].1, rows[1].2, rows[1].3)).await.unwrap_err();
    let found = users.duplicate(&error, &[rows[0].1]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("embedded_ids.user_id", None), "another column may have clashed");

    #[cfg(feature = "metrics")]
    told_of_one_duplicate(&registry);
    let missing = sqlx::query("INSERT INTO embedded_ids (id) VALUES (1)").execute(&pool).await.unwrap_err();
    assert!(orders.duplicate(&missing, &[]).is_none(), "{missing}");
}

/// Of the duplicates above one was an id of `orders` for certain.
#[cfg(feature = "metrics")]
fn told_of_one_duplicate(registry: &mintage::Registry) {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || registry.observe());
    let rows = recorder.snapshotter().snapshot().into_vec();
    let counts: Vec<(String, String)> = rows
        .iter()
        .filter(|(key, ..)| key.key().name() == "mintage_duplicate_keys_total")
        .map(|(key, _, _, value)| (key.key().labels().next().unwrap().value().to_owned(), format!("{value:?}")))
        .filter(|(_, value)| value != "Counter(0)")
        .collect();
    assert_eq!(counts, [("orders".to_owned(), "Counter(1)".to_owned())]);
}
