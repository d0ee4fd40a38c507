//! Configs: whatever stands in one, every fault is told with its place, and none ends the program.
#![no_main]

use mintage::{Config, Environment, Registry};

/// 2027-01-15T08:00:00Z.
const NOW_MS: u64 = 1_800_000_000_000;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(config) = Config::parse(text, "mintage.toml") else { return };
    let builder = Registry::builder().builtins();
    match config.check(builder.catalog(), &Environment::default(), NOW_MS) {
        Ok(checked) => {
            for entity in &checked.entities {
                assert!(!entity.plan.facts(NOW_MS).is_empty());
            }
        }
        Err(errors) => assert!(errors.to_string().lines().all(|line| !line.is_empty())),
    }
});
