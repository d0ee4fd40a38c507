//! Typed ids in the columns of real databases: what goes in comes out, what is no id does not, and a duplicate is named.
//!
//! The tables are those of docs/columns.md.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod mariadb;
mod postgres;
mod sqlite;

use mintage::{
    Config, Id, Registry,
    columns::{ColumnError, ColumnFault},
    core::ManualClock,
    entity,
};

entity! {
    pub(crate) Order: Int = "orders";
    pub(crate) User: Uuid = "users";
    pub(crate) Document: Ulid = "documents";
    pub(crate) Upload: Ksuid = "uploads";
}

const CONFIG: &str = r#"
version = 1
[entities.orders]
scheme = "segment"
durability = "weak"
[entities.users]
scheme = "uuidv7"
[entities.documents]
scheme = "ulid"
[entities.uploads]
scheme = "ksuid"
[stores.main]
url = "memory:"
"#;

/// One row of ids.
type Row = (Id<Order>, Id<User>, Id<Document>, Id<Upload>);

async fn registry() -> Registry {
    let config = Config::parse(CONFIG, "mintage.toml").unwrap();
    Registry::fixed(config, ManualClock::at(1_800_000_000_000), 7).await.unwrap()
}

/// Rows of fresh ids in ascending order, and one of the largest there are.
async fn rows(registry: &Registry) -> Vec<Row> {
    const COUNT: usize = 20;
    let orders = registry.minter::<Order>().unwrap().mint_many(COUNT).await.unwrap();
    let users = registry.minter::<User>().unwrap().mint_many(COUNT).await.unwrap();
    let documents = registry.minter::<Document>().unwrap().mint_many(COUNT).await.unwrap();
    let uploads = registry.minter::<Upload>().unwrap().mint_many(COUNT).await.unwrap();
    let zipped = orders.into_iter().zip(users).zip(documents).zip(uploads);
    let mut rows: Vec<Row> =
        zipped.map(|(((order, user), document), upload)| (order, user, document, upload)).collect();
    rows.push((
        Id::from_raw(i64::MAX.cast_unsigned()).unwrap(),
        Id::from_raw("ffffffff-ffff-7fff-bfff-ffffffffffff".parse().unwrap()).unwrap(),
        Id::from_raw(ulid_max()).unwrap(),
        Id::from_raw(ksuid_max()).unwrap(),
    ));
    rows
}

fn ulid_max() -> <mintage::kind::Ulid as mintage::Kind>::Raw {
    u128::MAX.into()
}

fn ksuid_max() -> <mintage::kind::Ksuid as mintage::Kind>::Raw {
    <svix_ksuid::Ksuid as svix_ksuid::KsuidLike>::from_bytes([0xff; 20])
}

/// The statement of docs/columns.md that makes `table`.
fn statement(table: &str) -> &'static str {
    let document = include_str!("../../docs/columns.md");
    let blocks = document.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.into_iter().find(|block| block.contains(&format!("CREATE TABLE {table} "))).unwrap()
}

/// What is wrong with a value, as sqlx hands it through.
fn column_error(error: &sqlx::Error) -> ColumnError {
    let source = match error {
        sqlx::Error::ColumnDecode { source, .. } => source,
        other => panic!("{other:?}"),
    };
    source.downcast_ref::<ColumnError>().unwrap_or_else(|| panic!("{error:?}")).clone()
}

fn fault(error: &sqlx::Error) -> ColumnFault {
    column_error(error).fault
}
