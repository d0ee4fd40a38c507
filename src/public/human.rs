//! What people make of a public id when they type it, read it out or paste it, put right again.
//!
//! Only for support desks and search fields: programs pass texts on as they are, and `decode` takes one spelling only.

use std::fmt::Write;

use crate::public::{Malformed, PublicIdError, PublicText};

/// What may be put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Crockford bodies and numbers: case, separators, and the letters that look like 0 and 1.
    LookAlikes,
    /// Case and separators: no symbol looks like another.
    Case,
    /// Separators only: case has a meaning.
    Separators,
    /// A UUID: case, and hyphens put where they belong.
    Uuid,
    /// Nothing but space around it.
    AsIs,
}

/// Brings `text` into the spelling that `decode` takes, if that is what it is.
pub(crate) fn normalise(text: &str, spelling: Spelling) -> Result<PublicText, PublicIdError> {
    let text = text.trim();
    let body = text.rfind('_').map_or(0, |at| at + 1);
    let mut normal = PublicText::empty();
    let mut kept = 0;
    for (at, symbol) in text.char_indices() {
        if spelling != Spelling::AsIs && (symbol == '-' || symbol.is_whitespace()) {
            continue;
        }
        if spelling == Spelling::Uuid && matches!(kept, 8 | 12 | 16 | 20) {
            write(&mut normal, '-')?;
        }
        write(&mut normal, put_right(symbol, at >= body, spelling))?;
        kept += 1;
    }
    Ok(normal)
}

fn put_right(symbol: char, in_body: bool, spelling: Spelling) -> char {
    let lower = symbol.to_ascii_lowercase();
    match (spelling, lower) {
        (Spelling::AsIs | Spelling::Separators, _) => symbol,
        (Spelling::LookAlikes, 'o') if in_body => '0',
        (Spelling::LookAlikes, 'i' | 'l') if in_body => '1',
        _ => lower,
    }
}

fn write(text: &mut PublicText, symbol: char) -> Result<(), PublicIdError> {
    text.write_char(symbol).map_err(|std::fmt::Error| Malformed::Length.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_put_right_and_no_more() {
        for (spelling, typed, right) in [
            (Spelling::LookAlikes, "ORD_7KM1DZHM", "ord_7km1dzhm"),
            (Spelling::LookAlikes, " ord_7km1-dz hm\t", "ord_7km1dzhm"),
            (Spelling::LookAlikes, "lol_oiLO", "lol_0110"),
            (Spelling::LookAlikes, "9823 6368-81", "9823636881"),
            (Spelling::LookAlikes, "98236368O1", "9823636801"),
            (Spelling::Case, "ORD_BCD-fgh", "ord_bcdfgh"),
            (Spelling::Separators, " ord_aB-Cd ", "ord_aBCd"),
            (Spelling::Uuid, "23F4AB15C48E8AFC99AB9763FDD06748", "23f4ab15-c48e-8afc-99ab-9763fdd06748"),
            (Spelling::Uuid, "23f4ab15 c48e-8afc-99ab9763fdd06748", "23f4ab15-c48e-8afc-99ab-9763fdd06748"),
            (Spelling::AsIs, " 01GZG-7 ", "01GZG-7"),
        ] {
            assert_eq!(normalise(typed, spelling).unwrap(), right);
        }
        assert_eq!(normalise(&"x".repeat(200), Spelling::Case), Err(Malformed::Length.into()));
        assert_eq!(normalise("", Spelling::Uuid).unwrap(), "");
    }
}
