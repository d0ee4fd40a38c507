//! Public ids in the paths of a web service, with axum.
//!
//! `PublicId<Order>` reads itself from a path segment: it has serde, which is all that axum's `Path` asks for. What the segment
//! says is only known after `resolve`, in the handler. Whatever does not open is answered exactly as what is not there.
//!
//! ```console
//! $ cargo run --example axum_path
//! ```
#![expect(clippy::print_stdout, reason = "a program that talks to a person")]

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use mintage::{Config, Id, Minter, PublicId, Registry, entity, public::PublicIdError};

entity!(Order: Int = "orders");

/// What the handlers share: the minter, and a table of orders by their id, as the database would have it.
#[derive(Clone)]
struct Shop {
    orders: Minter<Order>,
    table: Arc<RwLock<BTreeMap<Id<Order>, String>>>,
}

fn app(orders: Minter<Order>) -> Router {
    let shop = Shop { orders, table: Arc::default() };
    Router::new().route("/orders", post(place)).route("/orders/{id}", get(show)).with_state(shop)
}

/// Stores the order under its id, and answers with its public one.
async fn place(State(shop): State<Shop>, what: String) -> Result<(StatusCode, String), StatusCode> {
    let id = shop.orders.mint_ready().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let public = shop.orders.publish(id).map_err(status)?;
    shop.table.write().unwrap_or_else(PoisonError::into_inner).insert(id, what);
    Ok((StatusCode::CREATED, public.to_string()))
}

/// A public id is no permission: a real service asks here whether the caller may see this order.
async fn show(State(shop): State<Shop>, Path(id): Path<PublicId<Order>>) -> Result<String, StatusCode> {
    let id = shop.orders.resolve(id).map_err(status)?;
    shop.table.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned().ok_or(StatusCode::NOT_FOUND)
}

fn status(error: PublicIdError) -> StatusCode {
    match error {
        // No id of any order looks like this; anybody can see that without a key.
        PublicIdError::Malformed(_) => StatusCode::BAD_REQUEST,
        // Made up, or another's: as if nothing was found.
        PublicIdError::Rejected => StatusCode::NOT_FOUND,
        // Ours to repair.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builder().builtins().build(Config::shipped()?).await?;
    let app = app(registry.minter()?);
    // A server would be one line: `axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app).await?`.
    let (_, number) = ask(&app, "POST", "/orders", "three chairs").await?;
    println!("placed   {number}");
    for path in [format!("/orders/{number}"), "/orders/687865368056".to_owned(), "/orders/1".to_owned()] {
        let (status, body) = ask(&app, "GET", &path, "").await?;
        println!("{status}  {path}  {body}");
    }
    registry.close().await?;
    Ok(())
}

/// Sends a request through the router, as a server does.
async fn ask(app: &Router, method: &str, path: &str, body: &str) -> Result<(StatusCode, String), Box<dyn Error>> {
    use tower::ServiceExt as _;
    let request = axum::http::Request::builder().method(method).uri(path).body(body.to_owned())?;
    let response = app.clone().oneshot(request).await?;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_is_found_by_its_public_id_and_by_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let config =
            Config::parse(include_str!("../mintage.toml"), folder.path().join("mintage.toml").display().to_string());
        let registry = Registry::builder().builtins().build(config.unwrap()).await.unwrap();
        let orders: Minter<Order> = registry.minter().unwrap();
        let app = app(orders.clone());
        let (status, number) = ask(&app, "POST", "/orders", "three chairs").await.unwrap();
        assert_eq!((status, number.len()), (StatusCode::CREATED, 12));
        let get = async |path: &str| ask(&app, "GET", &format!("/orders/{path}"), "").await.unwrap();
        assert_eq!(get(&number).await, (StatusCode::OK, "three chairs".to_owned()));

        // The number of an order that nobody placed.
        let unused = orders.publish(orders.mint_ready().await.unwrap()).unwrap();
        assert_eq!(get(unused.as_str()).await.0, StatusCode::NOT_FOUND);
        for malformed in ["1", "orders_1", &number[1..], &format!("{number}0"), "%20", "%F0%9F%98%80", &"9".repeat(200)]
        {
            assert_eq!(get(malformed).await.0, StatusCode::BAD_REQUEST, "{malformed}");
        }
        registry.close().await.unwrap();
    }

    /// A token that is made up and one whose row is gone: the same answer to the byte.
    #[tokio::test]
    async fn rejected_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let text = include_str!("../mintage.toml")
            .replace("form = \"number\", digits = 12", "form = \"token\", prefix = \"ord\"");
        let config = Config::parse(&text, folder.path().join("mintage.toml").display().to_string()).unwrap();
        let registry = Registry::builder().builtins().build(config).await.unwrap();
        let orders: Minter<Order> = registry.minter().unwrap();
        let app = app(orders.clone());
        let gone = orders.publish(orders.mint_ready().await.unwrap()).unwrap();
        let answer = async |path: String| ask(&app, "GET", &path, "").await.unwrap();
        let nothing_there = answer(format!("/orders/{gone}")).await;
        assert_eq!(nothing_there.0, StatusCode::NOT_FOUND);
        assert_eq!(answer("/orders/ord_7km1dzhmsjg36ctn1d9mvat54y".to_owned()).await, nothing_there);
        registry.close().await.unwrap();
    }
}
