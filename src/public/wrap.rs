//! Seals an id with AES-256 key wrap: RFC 3394's steps under RFC 5649's alternative initial value.
//!
//! A 64-bit id takes the single-block form, wider ids the six-pass form. The two must never share a key, which the
//! width inside the key's label sees to. Opening compares the whole initial value and the padding in one constant-time
//! step; a wrap of another length under the right key therefore fails, which a general unwrap would accept.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, consts::U16};
use subtle::{Choice, ConstantTimeEq};

use crate::public::width::{Limbs, Width};

/// RFC 5649's constant; the length in bytes stands behind it.
const AIV: u64 = 0xa659_59a6_0000_0000;
/// How many passes RFC 3394 makes.
const PASSES: u64 = 6;
/// The longest sealed id: 160 bits, padded to 24 bytes, behind the initial value.
pub(crate) const SEALED_LEN_MAX: usize = 32;

/// How many bytes a sealed id has.
pub(crate) fn sealed_len(width: Width) -> usize {
    match width {
        Width::Int => 16,
        Width::Wide => 24,
        Width::Long => SEALED_LEN_MAX,
    }
}

/// Seals `id` over the first [`sealed_len`] bytes of `sealed`.
pub(crate) fn seal<C>(cipher: &C, id: Limbs, width: Width, sealed: &mut [u8; SEALED_LEN_MAX])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let [first, second, third] = id.parts();
    match width {
        Width::Int => {
            let block = encrypt(cipher, u128::from(initial_value(width)) << 64 | u128::from(third));
            sealed[..16].copy_from_slice(&block.to_be_bytes());
        }
        Width::Wide => put(wrap(cipher, initial_value(width), [second, third]), sealed),
        Width::Long => put(wrap(cipher, initial_value(width), [first, second, third << 32]), sealed),
    }
}

/// Opens `sealed`; the choice says whether initial value and padding were right. The id is noise if they were not.
pub(crate) fn open<C>(cipher: &C, sealed: &[u8; SEALED_LEN_MAX], width: Width) -> (Limbs, Choice)
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    let word = |at: usize| sealed[at * 8..at * 8 + 8].iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let (id, difference) = match width {
        Width::Int => {
            let block = decrypt(cipher, u128::from(word(0)) << 64 | u128::from(word(1)));
            // The casts keep the half that is meant.
            (Limbs::int(block as u64), (block >> 64) as u64 ^ initial_value(width))
        }
        Width::Wide => {
            let (value, [high, low]) = unwrap(cipher, word(0), [word(1), word(2)]);
            (Limbs::wide(u128::from(high) << 64 | u128::from(low)), value ^ initial_value(width))
        }
        Width::Long => {
            let (value, [first, second, last]) = unwrap(cipher, word(0), [word(1), word(2), word(3)]);
            let padding = last & u64::from(u32::MAX);
            (Limbs::long(first, second, (last >> 32) as u32), (value ^ initial_value(width)) | padding)
        }
    };
    (id, difference.ct_eq(&0))
}

fn initial_value(width: Width) -> u64 {
    AIV | width.bytes() as u64
}

/// RFC 3394's W over `N` words.
fn wrap<C, const N: usize>(cipher: &C, mut value: u64, mut words: [u64; N]) -> (u64, [u64; N])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let mut step = 0;
    for _ in 0..PASSES {
        for word in &mut words {
            step += 1;
            let block = encrypt(cipher, u128::from(value) << 64 | u128::from(*word));
            value = (block >> 64) as u64 ^ step;
            *word = block as u64;
        }
    }
    (value, words)
}

/// The inverse of [`wrap`].
fn unwrap<C, const N: usize>(cipher: &C, mut value: u64, mut words: [u64; N]) -> (u64, [u64; N])
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    let mut step = PASSES * N as u64;
    for _ in 0..PASSES {
        for word in words.iter_mut().rev() {
            let block = decrypt(cipher, u128::from(value ^ step) << 64 | u128::from(*word));
            value = (block >> 64) as u64;
            *word = block as u64;
            step -= 1;
        }
    }
    (value, words)
}

fn put<const N: usize>((value, words): (u64, [u64; N]), sealed: &mut [u8; SEALED_LEN_MAX]) {
    for (bytes, word) in sealed.chunks_exact_mut(8).zip(std::iter::once(value).chain(words)) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
}

fn encrypt<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: &C, block: u128) -> u128 {
    let mut block = block.to_be_bytes().into();
    cipher.encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

fn decrypt<C: BlockCipherDecrypt<BlockSize = U16>>(cipher: &C, block: u128) -> u128 {
    let mut block = block.to_be_bytes().into();
    cipher.decrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

#[cfg(test)]
mod tests {
    use aes::{Aes192, Aes256, cipher::KeyInit};
    use aes_kw::AesKwp;
    use mintage_core::AnyId;
    use proptest::prelude::*;

    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        assert_eq!(hex.len(), 2 * N);
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    #[test]
    fn rfc_3394_section_4_3() {
        let cipher = Aes256::new(&std::array::from_fn::<u8, 32, _>(|at| at as u8).into());
        let words = [0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff];
        let (value, sealed) = wrap(&cipher, 0xa6a6_a6a6_a6a6_a6a6, words);
        assert_eq!(
            [value, sealed[0], sealed[1]],
            [0x64e8_c3f9_ce0f_5ba2, 0x63e9_7779_0581_8a2a, 0x93c8_191e_7d6e_8ae7]
        );
        assert_eq!(unwrap(&cipher, value, sealed), (0xa6a6_a6a6_a6a6_a6a6, words));
    }

    #[test]
    fn rfc_5649_section_6() {
        let cipher = Aes192::new(&bytes::<24>("5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8").into());
        let id = Limbs::of(AnyId::Long(bytes("c37b7e6492584340bed12207808941155068f738")), Width::Long).unwrap();
        let mut sealed = [0; SEALED_LEN_MAX];
        seal(&cipher, id, Width::Long, &mut sealed);
        assert_eq!(sealed, bytes("138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a"));
        let (opened, right) = open(&cipher, &sealed, Width::Long);
        assert_eq!((opened, bool::from(right)), (id, true));
        // Seven bytes take one block, as our 64-bit ids do, but say so in their initial value.
        let seven = u128::from(AIV | 7) << 64 | 0x466f_7250_6173_6900;
        let block = encrypt(&cipher, seven);
        assert_eq!(block.to_be_bytes(), bytes("afbeb0f07dfbf5419200f2ccb50bb24f"));
        let mut sealed = [0; SEALED_LEN_MAX];
        sealed[..16].copy_from_slice(&block.to_be_bytes());
        assert!(!bool::from(open(&cipher, &sealed, Width::Int).1), "a wrap of another length under the right key");
    }

    #[test]
    fn shorter_wraps_under_the_right_key_do_not_open() {
        let key = [7; 32];
        let (ours, theirs) = (Aes256::new(&key.into()), AesKwp::<Aes256>::new(&key.into()));
        for (width, lens) in [(Width::Int, 1..=7), (Width::Wide, 9..=15), (Width::Long, 17..=24)] {
            for len in lens.filter(|len| *len != 20) {
                let mut sealed = [0; SEALED_LEN_MAX];
                theirs.wrap_key(&vec![0x55; len], &mut sealed).unwrap();
                assert!(!bool::from(open(&ours, &sealed, width).1), "{len} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_aes_kw_crate(key: [u8; 32], id: [u8; 20], garbage: [u8; 32]) {
            let (ours, theirs) = (Aes256::new(&key.into()), AesKwp::<Aes256>::new(&key.into()));
            for width in [Width::Int, Width::Wide, Width::Long] {
                let plain = &id[..width.bytes()];
                let any = match width {
                    Width::Int => AnyId::Int(u64::from_be_bytes(plain.try_into().unwrap())),
                    Width::Wide => AnyId::Wide(u128::from_be_bytes(plain.try_into().unwrap())),
                    Width::Long => AnyId::Long(id),
                };
                let limbs = Limbs::of(any, width).unwrap();
                let mut sealed = [0; SEALED_LEN_MAX];
                seal(&ours, limbs, width, &mut sealed);
                let mut expected = [0; SEALED_LEN_MAX];
                prop_assert_eq!(theirs.wrap_key(plain, &mut expected).unwrap().len(), sealed_len(width));
                prop_assert_eq!(sealed, expected);
                let (opened, right) = open(&ours, &sealed, width);
                prop_assert!(bool::from(right));
                prop_assert_eq!(opened.to_id(width), any);
                prop_assert!(!bool::from(open(&ours, &garbage, width).1));
            }
        }
    }
}
