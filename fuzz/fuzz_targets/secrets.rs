//! Key rings and bearer tokens: whatever is read, no error repeats it.
#![no_main]

use mintage::public::{BearerFormat, Keyring};

/// What stands in a line and is longer could be a key.
const LEAK_LEN: usize = 12;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Keyring::parse(text, "here") {
        Ok(ring) => {
            for version in ring.versions() {
                assert_eq!(ring.check_value(version).expect("it has a key").to_string().len(), 16);
            }
            assert!(format!("{ring:?}").starts_with("Keyring { versions: ["));
        }
        Err(error) => {
            let told = format!("{error} {error:?}");
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/') {
                let known = ["reissues", "revoked", "contradict", "version"].iter().any(|known| known.contains(word));
                assert!(word.len() < LEAK_LEN || known || !told.contains(word), "{word} in {told}");
            }
        }
    }
    let format = BearerFormat::new("acme_pat_").expect("a prefix");
    match format.parse(text) {
        Ok(token) => {
            assert!(token.reveal() == text && format.claims(text) && text.len() == 45);
            assert!(token.hash().matches(token.hash().as_bytes()));
            assert_eq!(format!("{token:?}"), "BearerToken(…)");
        }
        Err(error) => assert!(text.len() < LEAK_LEN || !format!("{error} {error:?}").contains(text)),
    }
    if let Ok(other) = BearerFormat::new(text) {
        assert!(other.prefix() == text && other.claims(text));
    }
});
