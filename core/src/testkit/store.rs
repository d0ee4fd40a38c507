//! The laws of stores.
