use mintage::{Id, columns::ColumnFault, core::ParseError};
use mintage_servers_for_tests::Postgres;
use sqlx::{PgPool, Row as _};

use crate::{Document, Order, Row, Upload, User, column_error, fault, registry, rows, statement};

const INSERT: &str = "INSERT INTO postgres_ids (id, user_id, document_id, upload_id) VALUES ($1, $2, $3, $4)";
const SELECT: &str = "SELECT id, user_id, document_id, upload_id FROM postgres_ids";

async fn pool(name: &str) -> Option<PgPool> {
    let url = Postgres::shared()?.database(name);
    let pool = PgPool::connect(&url).await.unwrap();
    sqlx::query(statement("postgres_ids")).execute(&pool).await.unwrap();
    Some(pool)
}

async fn insert(pool: &PgPool, row: Row) -> Result<(), sqlx::Error> {
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
    for row in &rows {
        let sql = sqlx::AssertSqlSafe(format!("{SELECT} WHERE user_id = $1 AND document_id = $2 AND upload_id = $3"));
        let read: Row = sqlx::query_as(sql).bind(row.1).bind(row.2).bind(row.3).fetch_one(&pool).await.unwrap();
        assert_eq!(read, *row);
    }
    // The simple protocol, in which every value is a text.
    let read = sqlx::raw_sql(SELECT).fetch_all(&pool).await.unwrap();
    let read: Vec<Row> = read.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(read.len(), rows.len());
    assert!(rows.iter().all(|row| read.contains(row)));
    // Text of the server's own making is the id's.
    let text: String = sqlx::query_scalar("SELECT user_id::text FROM postgres_ids WHERE id = $1")
        .bind(rows[0].0)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(text, rows[0].1.raw().to_string());
}

#[tokio::test]
async fn null_is_an_option() {
    let Some(pool) = pool("columns_null").await else { return };
    let some = rows(&registry().await).await[0];
    type Options = (Option<Id<Order>>, Option<Id<User>>, Option<Id<Upload>>);
    let (order, user, upload): Options = sqlx::query_as("SELECT $1, $2, $3")
        .bind(None::<Id<Order>>)
        .bind(Some(some.1))
        .bind(None::<Id<Upload>>)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!((order, user, upload), (None, Some(some.1), None));
    let error = sqlx::query_scalar::<_, Id<Order>>("SELECT NULL::bigint").fetch_one(&pool).await.unwrap_err();
    assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{error:?}");
}

#[tokio::test]
async fn arrays_of_every_kind() {
    let Some(pool) = pool("columns_array").await else { return };
    let rows = rows(&registry().await).await;
    for row in &rows {
        insert(&pool, *row).await.unwrap();
    }
    let (orders, users): (Vec<_>, Vec<_>) = rows.iter().map(|row| (row.0, row.1)).unzip();
    let (documents, uploads): (Vec<_>, Vec<_>) = rows.iter().map(|row| (row.2, row.3)).unzip();
    type Arrays = (Vec<Id<Order>>, Vec<Id<User>>, Vec<Id<Document>>, Vec<Id<Upload>>);
    let some: Arrays = sqlx::query_as(
        "SELECT array_agg(id ORDER BY id), array_agg(user_id ORDER BY id), array_agg(document_id ORDER BY id), \
         array_agg(upload_id ORDER BY id) FROM postgres_ids \
         WHERE id = ANY($1) AND user_id = ANY($2) AND document_id = ANY($3) AND upload_id = ANY($4)",
    )
    .bind(&orders)
    .bind(&users)
    .bind(&documents)
    .bind(&uploads)
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(some, (orders.clone(), users, documents, uploads));
    sqlx::query("UPDATE postgres_ids SET earlier = $1 WHERE id = $2")
        .bind(&orders)
        .bind(orders[0])
        .execute(&pool)
        .await
        .unwrap();
    let sql = "SELECT earlier FROM postgres_ids ORDER BY id LIMIT 2";
    let earlier: Vec<Vec<Id<Order>>> = sqlx::query_scalar(sql).fetch_all(&pool).await.unwrap();
    assert_eq!(earlier, [orders, vec![]]);
    let gaps: Vec<Option<Id<Order>>> =
        sqlx::query_scalar("SELECT ARRAY[1, NULL, 3]::bigint[]").fetch_one(&pool).await.unwrap();
    assert_eq!(gaps, [Id::from_raw(1).ok(), None, Id::from_raw(3).ok()]);
    let error = sqlx::query_scalar::<_, Vec<Id<Order>>>("SELECT ARRAY[1, -2]::bigint[]").fetch_one(&pool).await;
    assert_eq!(fault(&error.unwrap_err()), ColumnFault::Negative(-2));
}

#[tokio::test]
async fn what_is_no_id_is_refused_by_name() {
    let Some(pool) = pool("columns_faults").await else { return };
    async fn read<E: mintage::Entity>(pool: &PgPool, value: &str) -> sqlx::Error
    where
        Id<E>: Send + Unpin,
    {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {value}"));
        sqlx::query_scalar::<_, Id<E>>(sql).fetch_one(pool).await.unwrap_err()
    }
    let negative = read::<Order>(&pool, "(-1)::bigint").await;
    assert_eq!(fault(&negative), ColumnFault::Negative(-1));
    assert_eq!(
        column_error(&negative).to_string(),
        "entity orders: the BIGINT column holds -1: no id is negative, so something else wrote this row"
    );
    let nil = "'00000000-0000-0000-0000-000000000000'::uuid";
    assert_eq!(fault(&read::<User>(&pool, nil).await), ColumnFault::Nil);
    assert_eq!(fault(&read::<Document>(&pool, nil).await), ColumnFault::Nil);
    let max = "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid";
    assert_eq!(fault(&read::<User>(&pool, max).await), ColumnFault::Text(ParseError::Special("max")));
    let long = read::<Upload>(&pool, "'\\x00112233'::bytea").await;
    assert_eq!(fault(&long), ColumnFault::Length { found: 4, expected: 20 });
    assert_eq!(
        column_error(&long).to_string(),
        "entity uploads: the BYTEA column holds 4 bytes, 20 expected: see that the column has the type for this kind of id"
    );
    assert_eq!(fault(&read::<Upload>(&pool, "decode(repeat('00', 20), 'hex')").await), ColumnFault::Nil);
    // Columns of another type.
    for value in ["'7'::text", "7::int", "7::numeric"] {
        let error = read::<Order>(&pool, value).await;
        assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{value}: {error:?}");
    }
    // What could not be read back is not written.
    let nil = Id::<User>::from_raw("00000000-0000-0000-0000-000000000000".parse().unwrap()).unwrap();
    let error = sqlx::query("SELECT $1").bind(nil).execute(&pool).await.unwrap_err();
    assert!(matches!(error, sqlx::Error::Encode(_)), "{error:?}");
    assert!(error.to_string().contains("entity users: the UUID column holds the nil id"), "{error}");
}

#[tokio::test]
async fn a_duplicate_is_named() {
    let Some(pool) = pool("columns_duplicate").await else { return };
    let registry = registry().await;
    let rows = rows(&registry).await;
    insert(&pool, rows[0]).await.unwrap();
    let (orders, users) = (registry.minter::<Order>().unwrap(), registry.minter::<User>().unwrap());
    let (documents, uploads) = (registry.minter::<Document>().unwrap(), registry.minter::<Upload>().unwrap());

    let error = insert(&pool, Row::from((rows[0].0, rows[1].1, rows[1].2, rows[1].3))).await.unwrap_err();
    let found = orders.duplicate(&error, &[rows[0].0]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("postgres_ids_pkey", Some(rows[0].0)));
    assert_eq!(found.anatomy.unwrap(), orders.anatomy(rows[0].0));
    assert_eq!(orders.duplicate(&error, &[]).unwrap().id, Some(rows[0].0), "read from the message alone");
    assert_eq!(orders.duplicate(&error, &[rows[1].0]).unwrap().id, None, "not one of ours");
    assert_eq!(users.duplicate(&error, &[rows[1].1]).unwrap().id, None, "a number is no user");

    let error = insert(&pool, (rows[1].0, rows[0].1, rows[1].2, rows[1].3)).await.unwrap_err();
    let found = users.duplicate(&error, &[]).unwrap();
    assert_eq!((found.key.as_str(), found.id), ("postgres_ids_user_id_key", Some(rows[0].1)));
    assert_eq!(found.anatomy.unwrap().time.unwrap().unix_ms, 1_800_000_000_000);
    assert_eq!(orders.duplicate(&error, &[rows[1].0]).unwrap().id, None);

    let error = insert(&pool, (rows[1].0, rows[1].1, rows[0].2, rows[1].3)).await.unwrap_err();
    assert_eq!(documents.duplicate(&error, &[]).unwrap().id, Some(rows[0].2));
    let error = insert(&pool, (rows[1].0, rows[1].1, rows[1].2, rows[0].3)).await.unwrap_err();
    assert_eq!(uploads.duplicate(&error, &[]).unwrap().id, Some(rows[0].3));

    // Of many rows, and of a key of several columns.
    sqlx::query("CREATE TABLE lines (tenant text, id bigint, PRIMARY KEY (tenant, id))").execute(&pool).await.unwrap();
    let ids: Vec<Id<Order>> = rows.iter().map(|row| row.0).collect();
    let sql = "INSERT INTO lines SELECT 'acme, inc', id FROM unnest($1::bigint[]) AS id";
    sqlx::query(sql).bind(&ids[4..5]).execute(&pool).await.unwrap();
    let error = sqlx::query(sql).bind(&ids).execute(&pool).await.unwrap_err();
    assert_eq!(orders.duplicate(&error, &ids).unwrap().id, Some(ids[4]));

    let other = sqlx::query("SELECT 1/0").execute(&pool).await.unwrap_err();
    assert!(orders.duplicate(&other, &[]).is_none());
    assert!(orders.duplicate(&sqlx::Error::PoolTimedOut, &[]).is_none());
}
