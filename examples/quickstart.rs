//! An application and its ids: declare entities, mint, store, show, close.
//!
//! `cargo run --example quickstart` needs nothing but this repository: the config that comes with Mintage, in a temporary
//! folder.
#![expect(clippy::print_stdout, reason = "an example that shows its work")]

use std::{error::Error, path::Path};

use mintage::{Config, Environment, Id, Minter, Registry, entity};

entity!(pub Order: Int = "orders");
entity!(pub User: Uuid = "users");
entity!(pub Event: Int = "events");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for line in day_at_the_shop(folder.path()).await? {
        println!("{line}");
    }
    Ok(())
}

/// One run of a program that takes an order.
async fn day_at_the_shop(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    // Which entity gets which kind of id stands in the config. Its database and its keys are made beside it at first use.
    let config = folder.join("mintage.toml");
    std::fs::write(&config, include_str!("../mintage.toml"))?;
    // Whatever a variable of this machine says: the database of the example stays in its folder.
    let environment = Environment::default();
    let registry = Registry::builder().builtins().environment(environment).build(Config::load(config)?).await?;
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

    // What leaves the house is the public id, which tells nobody how many orders there are.
    let public = orders.publish(order)?.to_string();
    assert_eq!(orders.resolve(&public)?, order);

    let lines = vec![
        format!("{user:?} sorts by the time it was made"),
        format!("{order:?} is stored as {column}, and customers see {public}"),
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
        for day in 1..=3 {
            let lines = day_at_the_shop(folder.path()).await.unwrap();
            assert!(
                lines[1].starts_with(&format!("orders({day}) is stored as {day}, and customers see ")),
                "{lines:?}"
            );
            assert!(lines[0].starts_with("users(0") && lines[2].starts_with("events("), "{lines:?}");
        }
    }
}
