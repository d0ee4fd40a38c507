//! An application and its ids: declare entities, mint, store, read back, close.
//!
//! `cargo run --example quickstart` needs nothing but this repository: the config that comes with Mintage, on an SQLite
//! database in a temporary folder.
#![expect(clippy::print_stdout, reason = "an example that shows its work")]

use std::error::Error;

use mintage::{Config, Environment, Id, Minter, Registry, entity};

entity!(pub Order: Int = "orders");
entity!(pub User: Uuid = "users");
entity!(pub Event: Int = "events");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let database = format!("sqlite:{}", folder.path().join("mintage.db").display());
    for line in day_at_the_shop(&database).await? {
        println!("{line}");
    }
    Ok(())
}

/// One run of a program that takes an order.
async fn day_at_the_shop(database: &str) -> Result<Vec<String>, Box<dyn Error>> {
    // Which entity gets which kind of id stands in the config, and so does the variable that says where the store is. An
    // application writes `Config::load("mintage.toml")?` and leaves the environment to the process.
    let environment = Environment::of([("MINTAGE_STORE", database)]);
    let registry = Registry::builder().builtins().environment(environment).build(Config::shipped()?).await?;
    let orders: Minter<Order> = registry.minter()?;
    let users: Minter<User> = registry.minter()?;
    let events: Minter<Event> = registry.minter()?;

    // In nanoseconds, and it never waits. When it says `Exhausted`, more numbers are on their way.
    let user: Id<User> = users.mint()?;
    // Waits for a range, a lease or the clock if it has to.
    let order: Id<Order> = orders.mint_ready().await?;
    let event = events.mint_ready().await?;

    // A column holds the raw id. An Id<Order> is never taken for an Id<Event>, though both are numbers.
    let column: u64 = order.raw();
    let back: Id<Order> = Id::from_raw(column)?;
    assert_eq!(back, order);

    let lines = vec![
        format!("{user:?} sorts by the time it was made"),
        format!("{order:?} is a number for people, stored as {column}"),
        format!("{event:?} carries worker {}", events.anatomy(event).worker.unwrap_or_default()),
    ];
    // Gives the worker id and the unused numbers back.
    registry.close().await?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_run_goes_on_where_this_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", folder.path().join("mintage.db").display());
        for day in 1..=3 {
            let lines = day_at_the_shop(&database).await.unwrap();
            assert_eq!(lines[1], format!("orders({day}) is a number for people, stored as {day}"));
            assert!(lines[0].starts_with("users(0") && lines[2].starts_with("events("), "{lines:?}");
        }
    }
}
