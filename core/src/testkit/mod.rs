//! The laws that every scheme and every store must keep, as plain functions: run them on your own.

pub mod scheme;
pub mod store;
