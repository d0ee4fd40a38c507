//! Keys change without any public id changing, and each id keeps one text.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fmt, sync::Arc};

use mintage::public::{Codec, Keyring, PublicForm, PublicIdCodec, PublicIdError, Redundancy, UuidPlain};
use mintage_core::{Anatomy, AnyId, AnyScheme, Bits, Format, IdScheme, MintError, Order, ParseError, SchemeInfo};

const ONE: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
const TWO: &str = "2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";
const THREE: &str = "3 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pzw=\n";
/// 2026-11-01T00:00:00Z.
const CUT_MS: u64 = 1_793_491_200_000;

fn ring(lines: &[&str]) -> Keyring {
    Keyring::parse(&lines.concat(), "test").unwrap()
}

/// Unix milliseconds and 22 more bits, from 2026-01-01 on; says what times and texts it has, and mints nothing.
#[derive(Debug)]
struct Timed(SchemeInfo);

impl Timed {
    const EPOCH_MS: i64 = 1_767_225_600_000;
    const END_MS: i64 = Self::EPOCH_MS + (1 << 41) - 1;

    fn scheme() -> AnyScheme {
        AnyScheme::Int(Arc::new(Self(SchemeInfo::new("timed", Bits::Int, 63).ordered(Order::Time))))
    }

    fn id(unix_ms: u64, rest: u64) -> AnyId {
        AnyId::Int((unix_ms - Self::EPOCH_MS as u64) << 22 | rest)
    }
}

#[async_trait::async_trait]
impl IdScheme for Timed {
    type Bits = u64;
    fn info(&self) -> &SchemeInfo {
        &self.0
    }
    fn mint(&self) -> Result<u64, MintError> {
        Err(MintError::Closed)
    }
    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{bits:016X}")
    }
    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        if text.len() != 16 {
            return Err(ParseError::Length { found: text.len(), expected: 16 });
        }
        u64::from_str_radix(text, 16).map_err(|_| ParseError::Character { at: 0, found: '?' })
    }
    fn anatomy(&self, bits: u64) -> Anatomy {
        Anatomy::number(bits)
    }
    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u64, u64)> {
        let (from, to) = (from_ms.max(Self::EPOCH_MS), to_ms.min(Self::END_MS));
        (from <= to).then(|| (((from - Self::EPOCH_MS) as u64) << 22, ((to - Self::EPOCH_MS) as u64) << 22 | 0x3f_ffff))
    }
    fn runs_out(&self) -> Option<i64> {
        Some(Self::END_MS)
    }
}

fn orders(ring: &Keyring, form: PublicForm) -> Codec {
    let form = form.rotated_by(ring, "orders", &Timed::scheme());
    Codec::new(&form, "orders", "live", ring).unwrap()
}

fn token() -> PublicForm {
    PublicForm::token("ord", Bits::Int).unwrap()
}

#[test]
fn a_version_takes_over_at_its_time_and_no_text_changes() {
    let before = ring(&[ONE]);
    let after = ring(&[ONE, TWO, "2.from = 2026-11-01T00:00:00Z\n"]);
    for form in [token(), PublicForm::short("ord", Redundancy::Bits32).unwrap(), PublicForm::uuid(UuidPlain::I64)] {
        let (old, new) = (orders(&before, form.clone()), orders(&after, form));
        assert_eq!((old.versions(), new.versions()), (vec![1], vec![1, 2]));
        for id in [Timed::id(CUT_MS - 1, 0x3f_ffff), Timed::id(CUT_MS - 1_000_000, 5), AnyId::Int(0)] {
            let text = old.encode(id, b"").unwrap();
            assert_eq!(new.encode(id, b""), Ok(text), "an id that is out there keeps its text");
            assert_eq!((new.decode(&text, b""), new.version_of(id)), (Ok(id), Some(1)));
        }
        for id in [Timed::id(CUT_MS, 0), Timed::id(CUT_MS + 5, 9), AnyId::Int(u64::MAX >> 1)] {
            let text = new.encode(id, b"").unwrap();
            assert_eq!((new.decode(&text, b""), new.version_of(id)), (Ok(id), Some(2)));
            assert_eq!(old.decode(&text, b""), Err(PublicIdError::Rejected));
            let under_one = old.encode(id, b"").unwrap();
            assert_eq!(new.decode(&under_one, b""), Err(PublicIdError::Rejected), "version 1 does not own this id");
        }
    }
}

#[test]
fn a_start_before_the_epoch_owns_all_and_one_after_the_end_nothing() {
    let early = orders(&ring(&[ONE, TWO, "2.from = 2025-01-01T00:00:00Z\n"]), token());
    assert_eq!((early.versions(), early.version_of(AnyId::Int(0))), (vec![2], Some(2)));
    let late = orders(&ring(&[ONE, TWO, "2.from = 2200-01-01T00:00:00Z\n"]), token());
    assert_eq!(late.versions(), [1]);
}

#[test]
fn numbers_start_where_their_entity_says_and_only_there() {
    let ring = ring(&[ONE, TWO, "2.from = 2026-11-01T00:00:00Z\n2.from.orders = 1000\n2.from.bills = 5\n"]);
    let codec = orders(&ring, token());
    assert_eq!(codec.ownership(), [(AnyId::Int(0), 1), (AnyId::Int(1000), 2)]);
    assert_eq!([0, 999, 1000, 1001].map(|id| codec.version_of(AnyId::Int(id)).unwrap()), [1, 1, 2, 2]);
    assert_eq!(codec.version_of(AnyId::Wide(5)), None);
    let stranger = token().rotated_by(&ring, "users", &Timed::scheme());
    let stranger = Codec::new(&stranger, "users", "live", &ring).unwrap();
    assert_eq!(stranger.version_of(AnyId::Int(1000)), Some(1), "its ids carry their time, and none is named for it");
}

#[test]
fn wide_and_long_ids_are_cut_by_value() {
    let ring = ring(&[ONE, TWO]);
    let cut = 0x0190_0000_0000_7000_8000_0000_0000_0000u128;
    let form = PublicForm::token("usr", Bits::Wide).unwrap().owned_from(2, AnyId::Wide(cut));
    let codec = Codec::new(&form, "users", "live", &ring).unwrap();
    assert_eq!([cut - 1, cut].map(|id| codec.version_of(AnyId::Wide(id)).unwrap()), [1, 2]);
    let mut bytes = [0; 20];
    bytes[0] = 1;
    let form = PublicForm::token("file", Bits::Long).unwrap().owned_from(2, AnyId::Long(bytes));
    let codec = Codec::new(&form, "files", "live", &ring).unwrap();
    let mut below = [0xff; 20];
    below[0] = 0;
    assert_eq!([below, bytes].map(|id| codec.version_of(AnyId::Long(id)).unwrap()), [1, 2]);
    for id in [below, bytes] {
        let text = codec.encode(AnyId::Long(id), b"").unwrap();
        assert_eq!(codec.decode(&text, b""), Ok(AnyId::Long(id)));
    }
}

/// 100 000 ids under the newer of two keys: always that id, never the older key's reading of the same text (case B174).
#[test]
fn a_new_text_never_opens_as_an_old_one() {
    const IDS: u64 = 100_000;
    let ring = ring(&[ONE, TWO, "2.from.orders = 50000\n"]);
    let cut = 50_000;
    for form in [token(), PublicForm::short("ord", Redundancy::Bits32).unwrap(), PublicForm::uuid(UuidPlain::I64)] {
        let codec = orders(&ring, form);
        for id in cut..cut + IDS {
            let text = codec.encode(AnyId::Int(id), b"").unwrap();
            assert_eq!(codec.decode(&text, b""), Ok(AnyId::Int(id)));
        }
        for id in 0..cut {
            let text = codec.encode(AnyId::Int(id), b"").unwrap();
            assert_eq!(codec.decode(&text, b""), Ok(AnyId::Int(id)), "old texts still open");
        }
    }
}

#[test]
fn a_leaked_key_is_reissued_and_its_texts_open_only_as_legacy() {
    let leaked = orders(&ring(&[ONE, TWO, "2.from.orders = 1000\n"]), token());
    let lines = [ONE, TWO, THREE, "2.from.orders = 1000\n", "3.reissues = 1\n"];
    let reissued = orders(&ring(&lines), token());
    let revoked = orders(&ring(&[TWO, THREE, "2.from.orders = 1000\n3.reissues = 1\n1.revoked = true\n"]), token());
    let old = leaked.encode(AnyId::Int(5), b"").unwrap();
    let kept = leaked.encode(AnyId::Int(5000), b"").unwrap();
    let new = reissued.encode(AnyId::Int(5), b"").unwrap();
    assert_ne!(old, new);
    for codec in [&reissued, &revoked] {
        assert_eq!(codec.versions(), [2, 3]);
        assert_eq!(codec.encode(AnyId::Int(5), b""), Ok(new));
        assert_eq!(codec.decode(&new, b""), Ok(AnyId::Int(5)));
        assert_eq!(codec.decode(&old, b""), Err(PublicIdError::Rejected));
        assert_eq!(codec.decode(&kept, b""), Ok(AnyId::Int(5000)), "what did not leak stays");
        assert_eq!(codec.decode_legacy(&new, b""), Err(PublicIdError::Rejected));
        assert_eq!(codec.decode_legacy(&kept, b""), Err(PublicIdError::Rejected));
    }
    assert_eq!(reissued.decode_legacy(&old, b""), Ok(AnyId::Int(5)));
    assert_eq!(revoked.decode_legacy(&old, b""), Err(PublicIdError::Rejected));
}

#[test]
fn forms_whose_key_cannot_change_keep_the_first_and_may_be_reissued() {
    let cut = [ONE, TWO, "2.from = 2026-11-01T00:00:00Z\n2.from.orders = 5\n"];
    let short = PublicForm::short("ord", Redundancy::None).unwrap();
    assert!(
        !short.rotates()
            && !PublicForm::uuid(UuidPlain::U7).rotates()
            && !PublicForm::uuid(UuidPlain::Ulid42).rotates()
    );
    let codec = orders(&ring(&cut), short.clone());
    assert_eq!(codec.versions(), [1]);
    let reissued = orders(&ring(&[ONE, TWO, "2.reissues = 1\n"]), short);
    assert_eq!(reissued.versions(), [2]);
    let (old, new) = (codec.encode(AnyId::Int(9), b"").unwrap(), reissued.encode(AnyId::Int(9), b"").unwrap());
    assert_eq!(reissued.decode(&new, b""), Ok(AnyId::Int(9)));
    assert_ne!(reissued.decode(&old, b""), Ok(AnyId::Int(9)), "every text opens something, but not what it did");
    assert_eq!(reissued.decode_legacy(&old, b""), Ok(AnyId::Int(9)));
}

#[test]
fn u7k4_shows_its_key_version_and_has_room_for_fifteen() {
    let ring = ring(&[ONE, TWO]);
    let id = |ms: u128| AnyId::Wide(ms << 80 | 7 << 76 | 0b10 << 62);
    let form = PublicForm::uuid(UuidPlain::U7K4).owned_from(2, id(1000));
    let codec = Codec::new(&form, "users", "live", &ring).unwrap();
    for (ms, version) in [(999, '1'), (1000, '2')] {
        let text = codec.encode(id(ms), b"").unwrap();
        assert!(text.starts_with(version), "{text}");
        assert_eq!(codec.decode(&text, b""), Ok(id(ms)));
        for other in "034".chars() {
            let forged = format!("{other}{}", &text[1..]);
            assert_eq!(codec.decode(&forged, b""), Err(PublicIdError::Rejected));
        }
    }
    let sixteen = Keyring::parse(&format!("{ONE}16{}16.reissues = 1", &TWO[1..]), "test").unwrap();
    let told = Codec::new(&PublicForm::uuid(UuidPlain::U7K4), "users", "live", &sixteen).unwrap_err();
    assert!(told.message().contains("up to 15"), "{told}");
}

#[test]
fn what_must_not_change_is_pinned() {
    let plain = Format::of("timed");
    let pins = |form: PublicForm, realm| Codec::new(&form, "orders", realm, &ring(&[ONE])).unwrap().pin(plain.clone());
    let one = pins(token(), "live");
    assert_eq!(one.field("+public"), Some("token"));
    assert!(one.agrees_with(&plain, "orders").is_ok(), "a form may be chosen later");
    assert!(plain.agrees_with(&one, "orders").is_err(), "and not given up");
    assert!(one.agrees_with(&pins(token(), "live"), "orders").is_ok());
    for other in [
        pins(token(), "test"),
        pins(PublicForm::token("ordr", Bits::Int).unwrap(), "live"),
        pins(token().with_context().unwrap(), "live"),
        pins(PublicForm::short("ord", Redundancy::None).unwrap(), "live"),
        pins(PublicForm::uuid(UuidPlain::I64), "live"),
        pins(PublicForm::number(12, 1).unwrap(), "live"),
        Codec::plain(Timed::scheme(), "orders", "live").pin(plain.clone()),
    ] {
        assert!(one.agrees_with(&other, "orders").is_err(), "{other}");
    }
    let number = |start, digits| pins(PublicForm::number(digits, start).unwrap(), "live");
    assert!(number(1, 12).agrees_with(&number(2, 12), "orders").is_err());
    assert!(number(1, 12).agrees_with(&number(1, 11), "orders").is_err());
}

#[test]
fn plain_text_is_the_schemes_own_and_has_one_spelling() {
    let codec = Codec::plain(Timed::scheme(), "orders", "live");
    let text = codec.encode(AnyId::Int(0xabc), b"").unwrap();
    assert_eq!((text.as_str(), codec.decode(&text, b"")), ("0000000000000ABC", Ok(AnyId::Int(0xabc))));
    assert!(matches!(codec.decode("0000000000000abc", b""), Err(PublicIdError::Malformed(_))));
    assert!(matches!(codec.decode("+000000000000ABC", b""), Err(PublicIdError::Malformed(_))));
    assert!(matches!(codec.decode("ABC", b""), Err(PublicIdError::Malformed(_))));
    assert_eq!(codec.normalise_human(" 0000000000000ABC\n").unwrap(), "0000000000000ABC");
    assert!(codec.encode(AnyId::Wide(5), b"").is_err());
    assert_eq!((codec.versions(), codec.version_of(AnyId::Int(5))), (vec![], None));
}
