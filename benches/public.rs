//! Public ids beside their peers, in one run: figures of other machines or days say nothing, ratios of one run do.
//!
//! `cargo bench -p mintage-benches --bench public`. Goals: a 64-bit token with its text at most 2.5 times a bare AES-256 block
//! and its base32 text, and at least 150 times as fast as sqids; a 10-digit number at least 10 times as fast as the `fpe`
//! crate. `-- goals` measures these three alone, each in turn with its rival.
#![expect(clippy::unwrap_used, reason = "a benchmark")]

mod goals;

use std::hint::black_box;

use aes::{
    Aes256,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use aes_siv::siv::Aes256Siv;
use criterion::{Criterion, criterion_group};
use fpe::ff1::{FF1, FlexibleNumeralString};
use mintage::public::{Alphabet, BearerFormat, Codec, Keyring, PublicForm, PublicIdCodec, Redundancy, UuidPlain};
use mintage_core::{AnyId, Bits};

use crate::goals::Rival;

const KEYS: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
const KEY: [u8; 32] = [7; 32];
const ID: u64 = 1_541_815_603_606_036_480;
const WIDE: u128 = 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f;

fn codec(form: PublicForm) -> Codec {
    Codec::new(&form, "order", "live", &Keyring::parse(KEYS, "bench").unwrap()).unwrap()
}

fn token(bits: Bits) -> PublicForm {
    PublicForm::token("ord", bits).unwrap()
}

/// What a token cannot be cheaper than: one AES block, and 26 symbols written the plain way.
fn block_and_text(cipher: &Aes256, id: u64) -> [u8; 26] {
    let mut block = (0xa659_59a6_0000_0008u128 << 64 | u128::from(id)).to_be_bytes().into();
    cipher.encrypt_block(&mut block);
    let mut rest = u128::from_be_bytes(block.into());
    let mut text = [0; 26];
    for symbol in text.iter_mut().rev() {
        *symbol = b"0123456789abcdefghjkmnpqrstvwxyz"[(rest & 31) as usize];
        rest >>= 5;
    }
    text
}

fn tokens(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("token64");
    let cipher = Aes256::new(&KEY.into());
    let ours = codec(token(Bits::Int));
    let text = ours.encode(AnyId::Int(ID), b"").unwrap();
    let sqids = sqids::Sqids::default();
    let squid = sqids.encode(&[ID]).unwrap();
    let mut block = [7; 16].into();
    group.bench_function("a bare AES-256 block", |b| b.iter(|| cipher.encrypt_block(black_box(&mut block))));
    group.bench_function("a bare block and its text", |b| b.iter(|| block_and_text(&cipher, black_box(ID))));
    group.bench_function("mintage encode", |b| b.iter(|| ours.encode(AnyId::Int(black_box(ID)), b"")));
    group.bench_function("mintage decode", |b| b.iter(|| ours.decode(black_box(&text), b"")));
    group.bench_function("sqids encode", |b| b.iter(|| sqids.encode(black_box(&[ID]))));
    group.bench_function("sqids decode", |b| b.iter(|| sqids.decode(black_box(&squid))));
    group.bench_function("uuid to text", |b| {
        let mut text = [0; 36];
        b.iter(|| uuid::Uuid::from_u128(black_box(WIDE)).hyphenated().encode_lower(&mut text).len());
    });
    group.finish();
}

fn numbers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("number");
    let fpe = FF1::<Aes256>::new(&KEY, 10).unwrap();
    let digits = FlexibleNumeralString::from(vec![0u16, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Eleven digits with the check digit: ten are permuted, as in the other crate.
    let ten = codec(PublicForm::number(11, 1).unwrap());
    let twelve = codec(PublicForm::number(12, 1).unwrap());
    let mut id = 0;
    let mut next = move || {
        id = id % 1_000_000 + 1;
        AnyId::Int(id)
    };
    group.bench_function("fpe, 10 digits", |b| b.iter(|| fpe.encrypt(b"order", black_box(&digits))));
    group.bench_function("mintage encode, 10 digits and check", |b| b.iter(|| ten.encode(black_box(next()), b"")));
    group.bench_function("mintage encode, 12 digits", |b| b.iter(|| twelve.encode(black_box(next()), b"")));
    let text = twelve.encode(AnyId::Int(5), b"").unwrap();
    group.bench_function("mintage decode, 12 digits", |b| b.iter(|| twelve.decode(black_box(&text), b"")));
    group.finish();
}

fn others(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("other forms");
    let long = AnyId::Long([7; 20]);
    for (name, form, id, context) in [
        ("token64 base62", token(Bits::Int).in_alphabet(Alphabet::Base62).unwrap(), AnyId::Int(ID), ""),
        ("token64 novowel", token(Bits::Int).in_alphabet(Alphabet::NoVowel).unwrap(), AnyId::Int(ID), ""),
        ("token64 two versions", token(Bits::Int).owned_from(2, AnyId::Int(5)), AnyId::Int(ID), ""),
        ("token128", token(Bits::Wide), AnyId::Wide(WIDE), ""),
        ("token160", token(Bits::Long), long, ""),
        ("token64 context", token(Bits::Int).with_context().unwrap(), AnyId::Int(ID), "tenant-42"),
        ("short r32", PublicForm::short("ord", Redundancy::Bits32).unwrap(), AnyId::Int(ID), ""),
        ("short r0", PublicForm::short("ord", Redundancy::None).unwrap(), AnyId::Int(ID), ""),
        ("uuid i64", PublicForm::uuid(UuidPlain::I64), AnyId::Int(ID), ""),
        ("uuid u7", PublicForm::uuid(UuidPlain::U7), AnyId::Wide(WIDE), ""),
    ] {
        let codec = codec(form);
        let text = codec.encode(id, context.as_bytes()).unwrap();
        group.bench_function(format!("{name} encode"), |b| b.iter(|| codec.encode(black_box(id), context.as_bytes())));
        group.bench_function(format!("{name} decode"), |b| {
            b.iter(|| codec.decode(black_box(&text), context.as_bytes()))
        });
    }
    group.bench_function("aes-siv alone, 8 bytes", |b| {
        let key = [7; 64];
        b.iter(|| {
            let mut id = black_box(ID).to_be_bytes();
            Aes256Siv::new(&key.into()).encrypt_inout_detached([b"tenant-42"], id.as_mut_slice().into())
        });
    });
    let bearer = BearerFormat::new("acme_pat_").unwrap();
    group.bench_function("bearer issue", |b| b.iter(|| bearer.issue()));
    group.finish();
}

/// Equal cost whatever the cause: these must not differ by more than noise.
fn refusals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refusal");
    let ring = Keyring::parse(KEYS, "bench").unwrap();
    let of =
        |entity, realm| Codec::new(&token(Bits::Int).owned_from(2, AnyId::Int(1 << 60)), entity, realm, &ring).unwrap();
    let ours = of("order", "live");
    let text = |codec: &Codec, id| codec.encode(AnyId::Int(id), b"").unwrap();
    let mut bit = text(&ours, ID).to_string();
    bit.replace_range(29.., if bit.ends_with('0') { "1" } else { "0" });
    let foreign = Codec::new(&token(Bits::Int), "order", "live", &ring).unwrap();
    for (name, text) in [
        ("wrong entity", text(&of("user", "live"), ID).to_string()),
        ("wrong realm", text(&of("order", "test"), ID).to_string()),
        ("wrong bit", bit),
        ("wrong version", text(&foreign, ID).to_string()),
    ] {
        assert!(ours.decode(&text, b"").is_err(), "{name}");
        group.bench_function(name, |b| b.iter(|| ours.decode(black_box(&text), b"")));
    }
    group.finish();
}

/// The goals, each with its rival in turn.
fn goals() {
    let cipher = Aes256::new(&KEY.into());
    let ours = codec(token(Bits::Int));
    let sqids = sqids::Sqids::default();
    let ten = codec(PublicForm::number(11, 1).unwrap());
    let fpe = FF1::<Aes256>::new(&KEY, 10).unwrap();
    let digits = FlexibleNumeralString::from(vec![0u16, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let encode = || Rival::new("64-bit token with its text", || ours.encode(AnyId::Int(black_box(ID)), b""));
    goals::head();
    let block = Rival::new("an AES-256 block and its base32 text", || block_and_text(&cipher, black_box(ID)));
    goals::row(encode(), block, false, "at most 2.5 times as long");
    let squid = Rival::new("sqids encode", || sqids.encode(black_box(&[ID])));
    goals::row(encode(), squid, true, "at least 150 times as fast");
    let mut id = 0;
    let number = Rival::new("number of 10 digits and check", || {
        id = id % 1_000_000 + 1;
        ten.encode(AnyId::Int(black_box(id)), b"")
    });
    let general = Rival::new("fpe, 10 digits", || fpe.encrypt(b"order", black_box(&digits)));
    goals::row(number, general, true, "at least 10 times as fast");
}

criterion_group!(benches, tokens, numbers, others, refusals);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test --benches` only asks whether it runs, and a filter asks for something else.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let measured = std::env::args().any(|argument| argument == "--bench");
    if measured && arguments.next().is_none_or(|filter| filter == "goals") {
        goals();
    }
}
