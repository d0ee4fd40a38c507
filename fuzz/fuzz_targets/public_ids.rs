//! Every decoder of public ids: a text is refused, or it is the very text that its id is written as.
#![no_main]

use std::sync::LazyLock;

use mintage::public::{
    Alphabet, Codec, Keyring, PublicForm, PublicIdCodec, PublicIdError, PublicText, Redundancy, Stage, UuidPlain,
};
use mintage_core::Bits;

const KEYS: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n\
                    2.reissues = 1\n";

/// One of each form, with its context. Version 2 took over from version 1, so that texts of the past are read as well.
pub(crate) static CODECS: LazyLock<Vec<(Codec, &[u8])>> = LazyLock::new(|| {
    let ring = Keyring::parse(KEYS, "fuzz").expect("a key ring");
    let token = |bits| PublicForm::token("ord", bits).expect("a prefix");
    let stage = |base, lo, hi| Stage { base, lo, hi, key: None };
    let mut forms = Vec::new();
    for bits in [Bits::Int, Bits::Wide, Bits::Long] {
        forms.push(token(bits));
        forms.push(token(bits).in_alphabet(Alphabet::Base62).expect("an alphabet"));
        forms.push(token(bits).in_alphabet(Alphabet::NoVowel).expect("an alphabet"));
        forms.push(token(bits).with_context().expect("a context"));
    }
    forms.extend([Redundancy::Bits32, Redundancy::None].map(|bits| PublicForm::short("ord", bits).expect("a prefix")));
    forms.extend([8, 12, 15].map(|digits| PublicForm::number(digits, 1).expect("digits")));
    let stages = vec![stage(5, 1_000_000, 2_000_003), stage(900_000, 5_000_000, 9_000_000)];
    forms.push(PublicForm::stages(stages).expect("stages"));
    forms.extend([UuidPlain::I64, UuidPlain::U7, UuidPlain::U7K4, UuidPlain::Ulid42].map(PublicForm::uuid));
    let codec = |form: PublicForm| {
        let context: &[u8] = if form.takes_context() { b"tenant-42" } else { b"" };
        (Codec::new(&form, "orders", "live", &ring).expect("a codec"), context)
    };
    forms.into_iter().map(codec).collect()
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (codec, context) in CODECS.iter() {
        match codec.decode(text, context) {
            Ok(id) => assert_eq!(codec.encode(id, context).expect("it has a text"), *text, "one text for each id"),
            Err(error) => assert!(matches!(error, PublicIdError::Malformed(_) | PublicIdError::Rejected), "{error:?}"),
        }
        if codec.form().authenticates() && codec.decode_legacy(text, context).is_ok() {
            assert!(codec.decode(text, context).is_err(), "a text of the past is none of today");
        }
        if let Ok(id) = codec.decode_human(text, context) {
            let written = codec.encode(id, context).expect("it has a text");
            assert_eq!(codec.normalise_human(text).as_ref(), Ok(&written));
            assert_eq!(codec.normalise_human(&written), Ok(written), "what is right stays");
        }
    }
    if let Ok(read) = serde_json::from_slice::<PublicText>(data) {
        assert_eq!(serde_json::from_str(&serde_json::to_string(&read).expect("a string")).ok(), Some(read));
    }
});
