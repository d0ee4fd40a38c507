//! Every entity of an application gets the kind of id it needs, chosen in a config file.

pub mod config;
