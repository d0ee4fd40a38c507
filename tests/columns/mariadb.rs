use mintage::{Id, columns::ColumnFault, core::ParseError};
use mintage_servers_for_tests::MariaDb;
use sqlx::{MySqlPool, Row as _};

use crate::{Document, Order, Row, Upload, User, column_error, fault, registry, rows, statement};

const INSERT: &str = "INSERT INTO mariadb_ids (id, user_id, document_id, upload_id) VALUES (?, ?, ?, ?)";
const SELECT: &str = "SELECT id, user_id, document_id, upload_id FROM mariadb_ids";

async fn pool(name: &str) -> Option<MySqlPool> {
    let url = MariaDb::shared()?.database(name);
    let pool = MySqlPool::connect(&url).await.unwrap();
    sqlx::query(statement("mariadb_ids")).execute(&pool).await.unwrap();
    Some(pool)
}

async fn insert(pool: &MySqlPool, row: Row) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT).bind(row.0).bind(row.1).bind(row.2).bind(row.3).execute(pool).await.map(drop)
}

#[tokio::test]
async fn what_goes_in_comes_out_and_sorts_as_ids_do() {
    let Some(pool) = pool("columns_round").await else { return };
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
    // The text protocol.
    let read = sqlx::raw_sql(SELECT).fetch_all(&pool).await.unwrap();
    let read: Vec<Row> = read.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(read.len(), rows.len());
    assert!(rows.iter().all(|row| read.contains(row)));
    // What the server makes of the sixteen bytes is the UUID.
    let text: String = sqlx::query_scalar("SELECT CAST(user_id AS CHAR(36)) FROM mariadb_ids WHERE id = ?")
        .bind(rows[0].0)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(text, rows[0].1.raw().to_string());
}

#[tokio::test]
async fn every_kind_has_every_column_it_may_have() {
    let Some(pool) = pool("columns_all").await else { return };
    let rows = rows(&registry().await).await;
    sqlx::query(
        "CREATE TABLE others (signed BIGINT, small INT UNSIGNED, user_id BINARY(16), document_id UUID, order_id BIGINT NULL)",
    )
    .execute(&pool)
    .await
    .unwrap();
    let row = rows[3];
    sqlx::query("INSERT INTO others VALUES (?, ?, ?, ?, ?)")
        .bind(row.0)
        .bind(row.0)
        .bind(row.1)
        .bind(row.2)
        .bind(None::<Id<Order>>)
        .execute(&pool)
        .await
        .unwrap();
    type Others = (Id<Order>, Id<Order>, Id<User>, Id<Document>, Option<Id<Order>>);
    let sql = "SELECT * FROM others WHERE signed = ? AND small = ? AND user_id = ? AND document_id = ?";
    let query = sqlx::query_as(sql).bind(row.0).bind(row.0).bind(row.1).bind(row.2);
    let read: Others = query.fetch_one(&pool).await.unwrap();
    assert_eq!(read, (row.0, row.0, row.1, row.2, None));
    let largest: Id<Order> = sqlx::query_scalar("SELECT 9223372036854775807").fetch_one(&pool).await.unwrap();
    assert_eq!(largest.raw(), i64::MAX.cast_unsigned());
}

#[tokio::test]
async fn what_is_no_id_is_refused_by_name() {
    let Some(pool) = pool("columns_faults").await else { return };
    async fn read<E: mintage::Entity>(pool: &MySqlPool, value: &str) -> sqlx::Error
    where
        Id<E>: Send + Unpin,
    {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {value}"));
        sqlx::query_scalar::<_, Id<E>>(sql).fetch_one(pool).await.unwrap_err()
    }
    assert_eq!(fault(&read::<Order>(&pool, "-1").await), ColumnFault::Negative(-1));
    let large = read::<Order>(&pool, "CAST(9223372036854775808 AS UNSIGNED)").await;
    assert_eq!(fault(&large), ColumnFault::TooLarge(1 << 63));
    assert_eq!(
        column_error(&large).to_string(),
        "entity orders: the BIGINT UNSIGNED column holds 9223372036854775808, above 9223372036854775807, the largest id: \
         something else wrote this row"
    );
    let nil = "CAST('00000000-0000-0000-0000-000000000000' AS UUID)";
    assert_eq!(fault(&read::<User>(&pool, nil).await), ColumnFault::Nil);
    let max = "CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS UUID)";
    assert_eq!(fault(&read::<User>(&pool, max).await), ColumnFault::Text(ParseError::Special("max")));
    assert_eq!(fault(&read::<User>(&pool, "UNHEX(REPEAT('00', 16))").await), ColumnFault::Nil);
    let short = read::<Document>(&pool, "UNHEX('0102')").await;
    assert_eq!(fault(&short), ColumnFault::Length { found: 2, expected: 16 });
    assert_eq!(fault(&read::<Upload>(&pool, "UNHEX(REPEAT('00', 20))").await), ColumnFault::Nil);
    // Sixteen or twenty letters.
    let letters = read::<User>(&pool, "'sixteen letters!'").await;
    assert_eq!(fault(&letters), ColumnFault::Length { found: 16, expected: 36 });
    let letters = read::<Upload>(&pool, "'twenty letters, or so'").await;
    assert_eq!(column_error(&letters).entity, "uploads");
    for value in ["'7'", "7.5", "b'111'", "CAST(2026 AS YEAR)"] {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {value}"));
        let read = sqlx::query_scalar::<_, Id<Order>>(sql).fetch_one(&pool).await;
        assert!(read.is_err(), "{value}: {read:?}");
    }
}

#[tokio::test]
async fn a_duplicate_is_named() {
    let Some(pool) = pool("columns_duplicate").await else { return };
    let registry = registry().await;
    let rows = rows(&registry).await;
    insert(&pool, rows[0]).await.unwrap();
    let (orders, users) = (registry.minter::<Order>().unwrap(), registry.minter::<User>().unwrap());
    let (documents, uploads) = (registry.minter::<Document>().unwrap(), registry.minter::<Upload>().unwrap());

    let error = insert(&pool, (rows[0].0, rows[1].1, rows[1].2, rows[1].3)).await.unwrap_err();
    let found = orders.duplicate(&error, &[]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("PRIMARY", Some(rows[0].0)));
    assert_eq!(found.anatomy.unwrap(), orders.anatomy(rows[0].0));
    assert_eq!(orders.duplicate(&error, &[rows[1].0]).unwrap().id, None, "not one of ours");

    let error = insert(&pool, (rows[1].0, rows[0].1, rows[1].2, rows[1].3)).await.unwrap_err();
    let found = users.duplicate(&error, &[]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("user_id", Some(rows[0].1)), "{error}");
    assert_eq!(orders.duplicate(&error, &[rows[1].0]).unwrap().id, None);

    for row in &rows[1..] {
        insert(&pool, *row).await.unwrap();
    }
    let fresh = crate::rows(&registry).await;
    // Every byte in its own spelling.
    for row in &rows[..20] {
        let error = insert(&pool, (fresh[0].0, fresh[0].1, row.2, fresh[0].3)).await.unwrap_err();
        assert_eq!(documents.duplicate(&error, &[]).unwrap().id, Some(row.2), "{error}");
        assert_eq!(documents.duplicate(&error, &[row.2]).unwrap().id, Some(row.2), "{error}");
        let error = insert(&pool, (fresh[0].0, fresh[0].1, fresh[0].2, row.3)).await.unwrap_err();
        assert_eq!(uploads.duplicate(&error, &[row.3]).unwrap().id, Some(row.3), "{error}");
    }

    sqlx::query("CREATE TABLE lines_of (tenant BIGINT, id BIGINT, PRIMARY KEY (tenant, id))")
        .execute(&pool)
        .await
        .unwrap();
    let sql = "INSERT INTO lines_of VALUES (7, ?), (7, ?)";
    sqlx::query(sql).bind(rows[4].0).bind(rows[5].0).execute(&pool).await.unwrap();
    let error = sqlx::query(sql).bind(rows[9].0).bind(rows[5].0).execute(&pool).await.unwrap_err();
    assert_eq!(orders.duplicate(&error, &[rows[9].0, rows[5].0]).unwrap().id, Some(rows[5].0), "{error}");

    let other = sqlx::query("SELECT nothing").execute(&pool).await.unwrap_err();
    assert!(orders.duplicate(&other, &[]).is_none());
}
