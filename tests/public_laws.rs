//! The laws of public ids: one text an id, one id a text, and nothing opens where it should not.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use mintage::public::{
    Alphabet, BearerFormat, Codec, EncodeError, Keyring, Malformed, PublicForm, PublicIdCodec, PublicIdError,
    Redundancy, Stage, UuidPlain,
};
use mintage_core::{AnyId, Bits};
use proptest::prelude::*;

const KEYS: &str =
    "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";

fn ring() -> Keyring {
    Keyring::parse(KEYS, "test").unwrap()
}

fn token(bits: Bits) -> PublicForm {
    PublicForm::token("ord", bits).unwrap()
}

fn codec(form: &PublicForm) -> Codec {
    Codec::new(form, "order", "live", &ring()).unwrap()
}

fn stage(base: u64, lo: u64, hi: u64) -> Stage {
    Stage { base, lo, hi, key: None }
}

/// Every form there is, and whether it takes a context.
fn forms() -> Vec<PublicForm> {
    let mut forms = Vec::new();
    for bits in [Bits::Int, Bits::Wide, Bits::Long] {
        forms.push(token(bits));
        forms.push(token(bits).in_alphabet(Alphabet::Base62).unwrap());
        forms.push(token(bits).in_alphabet(Alphabet::NoVowel).unwrap());
        forms.push(token(bits).with_context().unwrap());
    }
    forms.push(PublicForm::short("ord", Redundancy::Bits32).unwrap());
    forms.push(PublicForm::short("ord", Redundancy::None).unwrap());
    forms.push(PublicForm::number(12, 1).unwrap());
    forms.push(PublicForm::number(8, 1).unwrap());
    forms.push(PublicForm::stages(vec![stage(5, 1_000_000, 2_000_003)]).unwrap());
    forms.extend([UuidPlain::I64, UuidPlain::U7, UuidPlain::U7K4, UuidPlain::Ulid42].map(PublicForm::uuid));
    forms
}

fn context(form: &PublicForm) -> &'static [u8] {
    if form.takes_context() { b"tenant-42" } else { b"" }
}

/// An id of the width that `form` takes, and that it can carry.
fn id_for(form: &PublicForm, seed: [u8; 20]) -> AnyId {
    let wide = u128::from_be_bytes(*seed.first_chunk().unwrap());
    let int = u64::from_be_bytes(*seed.first_chunk().unwrap());
    let v7 = wide & !(0xf << 76) & !(0b11 << 62) | 7 << 76 | 0b10 << 62;
    let name = format!("{form:?}");
    match form.bits() {
        Bits::Int if form.name() == "number" => AnyId::Int(5 + int % 1_000_000),
        Bits::Int => AnyId::Int(int),
        Bits::Wide if name.contains("U7K4") => AnyId::Wide(v7 & (u128::MAX >> 6)),
        Bits::Wide if name.contains("U7") => AnyId::Wide(v7),
        Bits::Wide if name.contains("Ulid42") => AnyId::Wide(wide >> 6),
        Bits::Wide => AnyId::Wide(wide),
        _ => AnyId::Long(seed),
    }
}

proptest! {
    #[test]
    fn what_is_written_opens_and_is_the_one_text(seed: [u8; 20]) {
        for form in forms() {
            let codec = codec(&form);
            let (id, context) = (id_for(&form, seed), context(&form));
            let text = codec.encode(id, context).unwrap();
            prop_assert_eq!(codec.decode(&text, context), Ok(id));
            prop_assert_eq!(codec.encode(id, context).unwrap(), text, "deterministic");
            let (longer, twice) = (format!("{text}x"), format!("{text}{text}"));
            prop_assert!(matches!(codec.decode(&longer, context), Err(PublicIdError::Malformed(_))));
            prop_assert!(codec.decode(&twice, context).is_err());
            prop_assert!(codec.decode_legacy(&text, context).is_err(), "nothing was reissued");
        }
    }

    /// Arbitrary texts, and texts of the right shape: refused, or the very text that encoding gives back.
    #[test]
    fn any_text_is_refused_or_canonical(bytes in proptest::collection::vec(any::<u8>(), 0..100), body in "[0-9a-z]{0,60}", at in any::<prop::sample::Index>()) {
        let lossy = String::from_utf8_lossy(&bytes).into_owned();
        let digits: String = bytes.iter().map(|byte| char::from(b'0' + byte % 10)).take(15).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().chain("0".repeat(32).chars()).take(32).collect();
        let uuid = format!("{}-{}-8{}-{}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], ["8", "9", "a", "b"][at.index(4)], &hex[17..20], &hex[20..]);
        for form in forms() {
            let codec = codec(&form);
            let context = context(&form);
            let typed = format!("ord_{body}");
            for text in [lossy.as_str(), &typed, &body, &digits, &digits[..digits.len().min(12)], &digits[..digits.len().min(8)], &uuid, &hex] {
                match codec.decode(text, context) {
                    Ok(id) => prop_assert_eq!(codec.encode(id, context).unwrap(), text),
                    Err(error) => prop_assert!(matches!(error, PublicIdError::Malformed(_) | PublicIdError::Rejected), "{:?}", error),
                }
                let _ = codec.decode_legacy(text, context);
                let _ = codec.decode_human(text, context);
            }
        }
        let bearer = BearerFormat::new("acme_pat_").unwrap();
        prop_assert!(bearer.parse(&lossy).is_err());
        let made_up = format!("acme_pat_{body}");
        prop_assert!(bearer.parse(&made_up).is_err());
    }
}

/// Every symbol replaced by every other, every pair of neighbours swapped, every symbol left out or doubled.
#[test]
fn every_edit_of_a_token_is_refused() {
    for form in forms().into_iter().filter(|form| form.name() == "token") {
        let codec = codec(&form);
        let context = context(&form);
        let text = codec.encode(id_for(&form, [0x5a; 20]), context).unwrap().to_string();
        for at in 0..text.len() {
            for byte in 0x20..0x7f {
                let mut edited = text.clone().into_bytes();
                edited[at] = byte;
                let edited = String::from_utf8(edited).unwrap();
                assert_eq!(codec.decode(&edited, context).is_ok(), edited == text, "{edited}");
            }
            let (before, after) = text.split_at(at);
            assert!(codec.decode(&format!("{before}{}", &after[1..]), context).is_err());
            assert!(codec.decode(&format!("{before}{}{after}", &after[..1]), context).is_err());
            let mut swapped = text.clone().into_bytes();
            swapped.swap(at, (at + 1) % text.len());
            let swapped = String::from_utf8(swapped).unwrap();
            assert_eq!(codec.decode(&swapped, context).is_ok(), swapped == text, "{swapped}");
        }
    }
}

/// A text of one entity, realm, key version, width, alphabet or form opens under no other that shares its grammar.
#[test]
fn nothing_opens_as_anything_else() {
    let other_ring = Keyring::parse("1 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=", "test").unwrap();
    let second = Keyring::parse(&format!("{KEYS}2.reissues = 1"), "test").unwrap();
    let mut places: Vec<(String, PublicForm, Codec)> = Vec::new();
    for form in forms().into_iter().filter(PublicForm::authenticates) {
        for (ring, version) in [(&ring(), "1"), (&other_ring, "other"), (&second, "2")] {
            for entity in ["order", "orders", "user"] {
                for realm in ["live", "test"] {
                    let codec = Codec::new(&form, entity, realm, ring).unwrap();
                    places.push((format!("{form:?} {entity} {realm} key {version}"), form.clone(), codec));
                }
            }
        }
    }
    let (mut opened, mut compared) = (0, 0);
    for (here, form, codec) in &places {
        let text = codec.encode(id_for(form, [0x3c; 20]), context(form)).unwrap();
        for (there, other_form, other) in &places {
            let result = other.decode(&text, context(other_form));
            assert_eq!(result.is_ok(), here == there, "{here} as {there}");
            if form == other_form && here != there {
                assert_eq!(result, Err(PublicIdError::Rejected), "{here} as {there}");
            }
            opened += usize::from(result.is_ok());
            compared += 1;
        }
    }
    assert_eq!((opened, compared), (places.len(), places.len() * places.len()));
}

#[test]
fn a_bound_token_opens_in_its_context_only() {
    let form = token(Bits::Wide).with_context().unwrap();
    let bound = codec(&form);
    let text = bound.encode(AnyId::Wide(5), b"tenant-42").unwrap();
    for other in ["tenant-43", "tenant-4", "tenant-42 ", "TENANT-42", ""] {
        assert_eq!(bound.decode(&text, other.as_bytes()), Err(PublicIdError::Rejected), "{other}");
    }
    assert_eq!(bound.encode(AnyId::Wide(5), b""), Err(EncodeError::Context.into()), "never bound to nobody by mistake");
    let free = codec(&token(Bits::Wide));
    assert_eq!(free.encode(AnyId::Wide(5), b"tenant-42"), Err(EncodeError::Context.into()), "never silently unbound");
    let text = free.encode(AnyId::Wide(5), b"").unwrap();
    assert_eq!(free.decode(&text, b"tenant-42"), Err(PublicIdError::Rejected));
}

#[test]
fn numbers_are_a_permutation_of_a_million() {
    check_permutation(1_000_000);
}

#[test]
fn numbers_are_a_permutation_of_a_block_that_makes_them_walk() {
    check_permutation(1_000_003);
}

/// Each id has its own number, each number of the block its id.
fn check_permutation(room: u64) {
    let (base, lo) = (17, 4_000_000);
    let codec = codec(&PublicForm::stages(vec![stage(base, lo, lo + room)]).unwrap());
    let mut taken = vec![false; usize::try_from(room).unwrap()];
    for id in base..base + room {
        let text = codec.encode(AnyId::Int(id), b"").unwrap();
        assert_eq!(text.len(), 8);
        let payload: u64 = text[..7].parse().unwrap();
        let slot = &mut taken[usize::try_from(payload - lo).unwrap()];
        assert!(!std::mem::replace(slot, true), "{text} given out twice");
        assert_eq!(codec.decode(&text, b""), Ok(AnyId::Int(id)));
    }
    assert!(taken.iter().all(|taken| *taken));
    assert_eq!(codec.encode(AnyId::Int(base + room), b""), Err(EncodeError::StageExhausted.into()));
    assert_eq!(codec.encode(AnyId::Int(base - 1), b""), Err(EncodeError::OutOfRange.into()));
    assert_eq!(codec.encode(AnyId::Int(u64::MAX), b""), Err(EncodeError::StageExhausted.into()));
}

#[test]
fn a_growing_sequence_moves_to_its_next_stage_and_old_numbers_stay() {
    let one = codec(&PublicForm::stages(vec![stage(1, 1_000_000, 5_000_000)]).unwrap());
    let two = codec(
        &PublicForm::stages(vec![stage(1, 1_000_000, 5_000_000), stage(3_000_001, 10_000_000, 90_000_000)]).unwrap(),
    );
    for id in [1, 2, 1_500_000, 3_000_000] {
        assert_eq!(one.encode(AnyId::Int(id), b""), two.encode(AnyId::Int(id), b""));
    }
    let late = one.encode(AnyId::Int(3_000_001), b"").unwrap();
    assert_eq!(two.decode(&late, b""), Err(PublicIdError::Rejected), "the id belongs to the next stage now");
    let next = two.encode(AnyId::Int(3_000_001), b"").unwrap();
    assert_eq!((next.len(), two.decode(&next, b"")), (9, Ok(AnyId::Int(3_000_001))));
    assert_eq!(one.decode(&next, b""), Err(Malformed::Length.into()));
    assert_eq!(two.encode(AnyId::Int(83_000_001), b""), Err(EncodeError::StageExhausted.into()));
}

#[test]
fn a_stage_may_have_keys_of_its_own() {
    let other = Keyring::parse("1 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=", "test").unwrap();
    let own = Stage { key: Some("next".into()), ..stage(2_000_001, 5_000_000, 9_000_000) };
    let form = PublicForm::stages(vec![stage(1, 1_000_000, 5_000_000), own]).unwrap().under_key("main");
    let main = ring();
    let told = Codec::new(&form, "order", "live", &main).unwrap_err();
    assert!(told.to_string().contains("[keys.next]"), "{told}");
    let rings = |name: Option<&str>| match name {
        Some("main") => Some(&main),
        Some("next") => Some(&other),
        _ => None,
    };
    let codec = Codec::with_rings(&form, "order", "live", rings).unwrap();
    let unkeyed =
        PublicForm::stages(vec![stage(1, 1_000_000, 5_000_000), stage(2_000_001, 5_000_000, 9_000_000)]).unwrap();
    let text = |codec: &Codec, id| codec.encode(AnyId::Int(id), b"").unwrap();
    assert_eq!(text(&codec, 5), text(&Codec::new(&unkeyed, "order", "live", &main).unwrap(), 5));
    assert_eq!(text(&codec, 2_000_005), text(&Codec::new(&unkeyed, "order", "live", &other).unwrap(), 2_000_005));
}

/// One bit of the id flips about half of the bits of the text, whichever bit it is.
#[test]
fn every_bit_of_an_id_moves_half_of_its_token() {
    let codec = codec(&token(Bits::Int).in_alphabet(Alphabet::Crockford).unwrap());
    let bits = |id| {
        let text = codec.encode(AnyId::Int(id), b"").unwrap();
        text[4..].bytes().fold(0u128, |value, symbol| {
            value << 5 | "0123456789abcdefghjkmnpqrstvwxyz".find(char::from(symbol)).unwrap() as u128
        })
    };
    for bit in 0..64 {
        let flipped: u32 = (0..200u64)
            .map(|n| {
                let id = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (bits(id) ^ bits(id ^ 1 << bit)).count_ones()
            })
            .sum();
        // 200 · 128 draws: 12 800, with a deviation of 80. Seven deviations are never seen by chance.
        assert!((12_240..=13_360).contains(&flipped), "bit {bit} of the id: {flipped} bits of the text");
    }
}

/// Over 10^4 consecutive ids: all texts differ, symbols are uniform at every place, and neither value nor order shows.
#[test]
fn consecutive_ids_look_like_chance() {
    const IDS: u64 = 10_000;
    let number = codec(&PublicForm::number(12, 1).unwrap());
    let token = codec(&token(Bits::Int));
    let uuid = codec(&PublicForm::uuid(UuidPlain::I64));
    let short = codec(&PublicForm::short("ord", Redundancy::None).unwrap());
    for (codec, radix, skipped) in [(&number, 10.0, 1), (&token, 32.0, 5), (&short, 32.0, 5), (&uuid, 16.0, 0)] {
        let texts: Vec<String> = (1..=IDS).map(|id| codec.encode(AnyId::Int(id), b"").unwrap().to_string()).collect();
        assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len());
        // The first symbol is cut short by the width, and two places of a UUID are fixed.
        for at in
            (skipped..texts[0].len()).filter(|at| !texts[0].contains('-') || ![8, 13, 14, 18, 19, 23].contains(at))
        {
            let mut counts = [0f64; 256];
            texts.iter().for_each(|text| counts[usize::from(text.as_bytes()[at])] += 1.0);
            let expected = IDS as f64 / radix;
            let used = counts.iter().filter(|count| **count > 0.0).count() as f64;
            assert_eq!(used, radix, "place {at} of {}", texts[0]);
            let chi2: f64 =
                counts.iter().filter(|count| **count > 0.0).map(|count| (count - expected).powi(2) / expected).sum();
            let freedom = radix - 1.0;
            // Six deviations of chi².
            assert!(chi2 < freedom + 6.0 * (2.0 * freedom).sqrt(), "place {at}: chi² {chi2}");
        }
    }
    let values: Vec<f64> =
        (1..=IDS).map(|id| number.encode(AnyId::Int(id), b"").unwrap()[..11].parse().unwrap()).collect();
    let ids: Vec<f64> = (1..=IDS).map(|id| id as f64).collect();
    for lag in [1, 2, 3, 10, 100, 1000] {
        let r = correlation(&values[lag..], &values[..values.len() - lag]);
        // Six deviations of a correlation of so many.
        assert!(r.abs() < 6.0 / ((IDS as usize - lag) as f64).sqrt(), "lag {lag}: {r}");
    }
    assert!(correlation(&ids, &values).abs() < 0.06);
    let rising = values.windows(2).filter(|pair| pair[0] < pair[1]).count();
    // 5000, with a deviation of 29.
    assert!((4820..=5180).contains(&rising), "{rising} of 9999 steps rise");
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |of: &[f64], mean: f64, with: &[f64], other: f64| -> f64 {
        of.iter().zip(with).map(|(x, y)| (x - mean) * (y - other)).sum()
    };
    product(a, mean_a, b, mean_b) / (product(a, mean_a, a, mean_a) * product(b, mean_b, b, mean_b)).sqrt()
}

#[test]
fn ids_that_a_form_cannot_carry_are_the_callers_fault() {
    for form in forms() {
        let codec = codec(&form);
        let wrong = if form.bits() == Bits::Int { AnyId::Wide(5) } else { AnyId::Int(5) };
        assert_eq!(codec.encode(wrong, context(&form)), Err(EncodeError::WidthMismatch.into()), "{form:?}");
    }
    let refused = |plain, id: u128| {
        codec(&PublicForm::uuid(plain)).encode(AnyId::Wide(id), b"") == Err(EncodeError::OutOfRange.into())
    };
    let v4 = 0xf47a_c10b_58cc_4372_a567_0e02_b2c3_d479;
    let v7 = 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f;
    assert!(refused(UuidPlain::U7, v4) && refused(UuidPlain::U7K4, v4) && refused(UuidPlain::U7, 5));
    assert!(!refused(UuidPlain::U7, v7) && !refused(UuidPlain::U7K4, v7));
    let year_2109 = 0x0400_0000_0000_7cc3_98c4_dc0c_0c07_398f;
    assert!(refused(UuidPlain::U7K4, year_2109) && !refused(UuidPlain::U7, year_2109));
    assert!(refused(UuidPlain::Ulid42, 1 << 122) && !refused(UuidPlain::Ulid42, (1 << 122) - 1));
}

#[test]
fn nothing_prints_a_secret_or_an_id() {
    let id = AnyId::Int(0x5bad_c0de_5bad_c0de);
    for form in forms() {
        let codec = codec(&form);
        let mut told = format!("{codec:?} {:?}", ring());
        for error in [codec.encode(id, b"").err(), codec.decode("ord_7km1dzhmsjg36ctn1d9mvat54y", b"").err()]
            .into_iter()
            .flatten()
        {
            told += &format!("{error} {error:?}");
        }
        for secret in ["AAECAwQF", "000102", "[0, 1, 2", "6606", "5badc0de", "7km1dzhm"] {
            assert!(!told.contains(secret), "{told}");
        }
    }
}

#[test]
fn a_codec_without_what_it_needs_is_refused_at_start() {
    let form = token(Bits::Int);
    let two = Keyring::parse("2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=", "test").unwrap();
    let told = Codec::new(&form, "order", "live", &two).unwrap_err();
    assert!(told.message().contains("no version 1"), "{told}");
    for (entity, realm) in
        [("", "live"), ("order", ""), ("örder", "live"), ("an order", "live"), (&"x".repeat(256), "live")]
    {
        assert!(Codec::new(&form, entity, realm, &ring()).is_err(), "{entity} {realm}");
    }
    assert!(Codec::new(&form, &"x".repeat(255), "live", &ring()).is_ok());
    assert!(Codec::new(&PublicForm::plain(Bits::Int), "order", "live", &ring()).is_err());
    assert!(Codec::new(&form.under_key("main"), "order", "live", &ring()).is_ok());
}
