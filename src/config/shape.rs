//! Whether a table has only the keys it may have, and each the right kind of value: told for the whole file at once.
//!
//! What values mean together (does that store exist, does the block fit) is not asked here.

use mintage_core::plugin::{Catalog, Key, KeyKind, Problem, Setting, Value, parse_duration_ms};

use super::{
    keys::{DERIVED_WORKER_IDS, ENTITY, MASTER, POOL, ROOT, ROOT_LATER, SERIES, STORE},
    offer::Offer,
    tree::join,
    words,
};

/// Why no worker id is made from an address, a name or chance.
const DERIVED_WORKER_ID: &str = "a worker id made from an address, a name, a hash or chance is sooner or later that of two \
                                 processes: take out this key and let the pool lease one; `id = 7` insists on a number, \
                                 `ordinal = true` prefers that of the replica";

/// Says what is wrong with a key that is not in its table, given the names that are.
type Stranger<'f> = &'f dyn Fn(&str, &Setting, &[&str]) -> String;

/// What was found, and what need not be found again.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// What is wrong, in no order.
    pub(super) problems: Vec<Problem>,
    /// Keys that are absent because a typing error made another key of them: the error is told, so the absence is not.
    pub(super) mistyped: Vec<String>,
}

impl Shape {
    /// Looks at the whole file.
    pub(super) fn of(root: &[(String, Setting)], catalog: &Catalog) -> Self {
        let mut shape = Self::default();
        for entry in root {
            let (section, setting) = entry;
            match section.as_str() {
                "entities" => shape.named(section, setting, |shape, path, table| shape.entity(path, table, catalog)),
                "series" => {
                    shape.named(section, setting, |shape, path, table| shape.table(path, table, SERIES, &stranger))
                }
                "workers" => {
                    shape.named(section, setting, |shape, path, table| shape.table(path, table, POOL, &stranger))
                }
                "stores" => {
                    shape.named(section, setting, |shape, path, table| shape.table(path, table, STORE, &stranger))
                }
                "keys" => {
                    shape.named(section, setting, |shape, path, table| {
                        shape.table(path, table, MASTER, &secret_or_unknown)
                    });
                }
                "regions" => shape.regions(setting),
                _ => shape.entry("", root, entry, ROOT, &stranger_at_root),
            }
        }
        shape
    }

    /// Tables by any name.
    fn named(&mut self, path: &str, setting: &Setting, mut each: impl FnMut(&mut Self, &str, &[(String, Setting)])) {
        let Value::Table(tables) = &setting.value else {
            return self.refuse(
                path,
                setting,
                format!("tables such as [{path}.main] were expected, found {}", setting.value.kind()),
            );
        };
        for (name, inner) in tables {
            let path = join(path, name);
            match &inner.value {
                Value::Table(table) => each(self, &path, table),
                other => self.refuse(&path, inner, format!("a table was expected, found {}", other.kind())),
            }
        }
    }

    fn regions(&mut self, setting: &Setting) {
        let Value::Table(regions) = &setting.value else {
            return self.refuse("regions", setting, format!("a table was expected, found {}", setting.value.kind()));
        };
        for (name, block) in regions {
            self.value(&join("regions", name), block, KeyKind::Text);
        }
    }

    fn entity(&mut self, path: &str, table: &[(String, Setting)], catalog: &Catalog) {
        let scheme = table.iter().find(|(name, _)| name == "scheme").map(|(_, setting)| &setting.value);
        let offers = Offer::all(catalog);
        let offer = match scheme {
            Some(Value::Text(scheme)) => offers.iter().find(|offer| offer.name == scheme),
            _ => None,
        };
        let Some(offer) = offer else {
            return self.entity_without_scheme(path, table);
        };
        self.table(path, table, &offer.keys, &|key, _, known| stranger_in_entity(key, offer.name, &offers, known));
    }

    /// Without a scheme nobody can say which other keys belong here; but a near miss of a key of all entities is told.
    fn entity_without_scheme(&mut self, path: &str, table: &[(String, Setting)]) {
        let common: Vec<&str> = ENTITY.iter().map(|key| key.name).collect();
        for entry in table.iter().filter(|(name, _)| words::nearest(name, &common).is_some()) {
            self.entry(path, table, entry, ENTITY, &stranger);
        }
    }

    fn table(&mut self, path: &str, table: &[(String, Setting)], keys: &[Key], stranger: Stranger<'_>) {
        for entry in table {
            self.entry(path, table, entry, keys, stranger);
        }
    }

    fn entry(
        &mut self,
        path: &str,
        table: &[(String, Setting)],
        (name, setting): &(String, Setting),
        keys: &[Key],
        stranger: Stranger<'_>,
    ) {
        if let Some(key) = keys.iter().find(|key| key.name == name) {
            return self.value(&join(path, name), setting, key.kind);
        }
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        self.refuse(&join(path, name), setting, stranger(name, setting, &known));
        let meant = words::nearest(name, &known);
        self.mistyped
            .extend(meant.filter(|meant| table.iter().all(|(name, _)| name != meant)).map(|meant| join(path, meant)));
    }

    fn value(&mut self, path: &str, setting: &Setting, kind: KeyKind) {
        match (kind, &setting.value) {
            (KeyKind::Table(keys), Value::Table(table)) => {
                let worker = path.ends_with(".worker");
                self.table(path, table, keys, &|key, _, known| match worker && DERIVED_WORKER_IDS.contains(&key) {
                    true => DERIVED_WORKER_ID.to_owned(),
                    false => unknown(key, known),
                });
            }
            (KeyKind::Named(keys), Value::Table(tables)) => {
                for (name, inner) in tables {
                    self.value(&join(path, name), inner, KeyKind::Table(keys));
                }
            }
            (KeyKind::Tables(keys), Value::List(items)) => {
                for (position, item) in items.iter().enumerate() {
                    self.value(&format!("{path}[{position}]"), item, KeyKind::Table(keys));
                }
            }
            (KeyKind::OneOf(kinds), _) => self.one_of(path, setting, kinds),
            (KeyKind::Integer(..), Value::Text(text))
                if path.ends_with(".worker.id") && text.parse::<u64>().is_err() =>
            {
                self.refuse(path, setting, DERIVED_WORKER_ID.to_owned());
            }
            _ => {
                if let Some(fault) = fault(kind, &setting.value) {
                    self.refuse(path, setting, fault);
                }
            }
        }
    }

    /// The complaints of the alternative that has the right type; the list of all where none has.
    fn one_of(&mut self, path: &str, setting: &Setting, kinds: &'static [KeyKind]) {
        let mut complaints: Option<Self> = None;
        for kind in kinds.iter().filter(|kind| type_fits(**kind, &setting.value)) {
            let mut found = Self::default();
            found.value(path, setting, *kind);
            if found.problems.is_empty() {
                return;
            }
            complaints.get_or_insert(found);
        }
        match complaints {
            Some(found) => {
                self.problems.extend(found.problems);
                self.mistyped.extend(found.mistyped);
            }
            None => {
                let fault = format!("{} was expected, found {}", expected(KeyKind::OneOf(kinds)), setting.value.kind());
                self.refuse(path, setting, fault);
            }
        }
    }

    fn refuse(&mut self, path: &str, setting: &Setting, message: String) {
        self.problems.push(Problem { path: path.to_owned(), at: Some(setting.at), message, warning: false });
    }
}

/// What is wrong with a single value of `kind`.
fn fault(kind: KeyKind, value: &Value) -> Option<String> {
    let fault = match (kind, value) {
        (KeyKind::Text, Value::Text(_)) | (KeyKind::Flag, Value::Flag(_)) => return None,
        (KeyKind::Time, Value::Text(text) | Value::Time(text)) if is_time(text) => return None,
        (KeyKind::Time, Value::Text(text) | Value::Time(text)) => {
            format!("{} is not a time with its zone: write it as \"2026-01-01T00:00:00Z\"", words::quoted(text))
        }
        (KeyKind::Duration, Value::Text(text)) if parse_duration_ms(text).is_some() => return None,
        (KeyKind::Duration, Value::Text(text)) => format!(
            "{} is not a duration: write a whole number and ms, s, m, h or d, such as \"10ms\"",
            words::quoted(text)
        ),
        (KeyKind::Integer(least, most), Value::Integer(number)) if (least..=most).contains(number) => return None,
        (KeyKind::Integer(least, most), Value::Integer(number)) if least == most => {
            format!("{number} is not known to this version: write {least}")
        }
        (KeyKind::Integer(least, most), Value::Integer(number)) => format!("{number} lies outside {least} to {most}"),
        (KeyKind::Integer(..), Value::Text(text)) => {
            format!("{} is a text: write the number without quotes", words::quoted(text))
        }
        (KeyKind::Fraction(least, most), Value::Fraction(number)) if (least..=most).contains(number) => return None,
        (KeyKind::Fraction(least, most), Value::Fraction(number)) => format!("{number} lies outside {least} to {most}"),
        (KeyKind::Fraction(least, most), Value::Integer(number)) => {
            // Bounds of fractions are small; a number too large for i32 lies outside any of them.
            if i32::try_from(*number).is_ok_and(|number| (least..=most).contains(&f64::from(number))) {
                return None;
            }
            format!("{number} lies outside {least} to {most}")
        }
        (KeyKind::Choice(choices), Value::Text(text)) if choices.contains(&text.as_str()) => return None,
        (KeyKind::Choice(choices), Value::Text(text)) => format!(
            "{} is not one of {}{}",
            words::quoted(text),
            words::listed(choices),
            words::did_you_mean(text, choices)
        ),
        (KeyKind::Texts, Value::List(items)) if items.iter().all(|item| matches!(item.value, Value::Text(_))) => {
            return None;
        }
        (KeyKind::Texts, Value::List(_)) => "every item of the list must be a text in quotes".to_owned(),
        (KeyKind::Integers(least, most), Value::List(items)) => {
            return items.iter().find_map(|item| fault(KeyKind::Integer(least, most), &item.value));
        }
        _ => format!("{} was expected, found {}", expected(kind), value.kind()),
    };
    Some(fault)
}

fn type_fits(kind: KeyKind, value: &Value) -> bool {
    match (kind, value) {
        (KeyKind::Text | KeyKind::Duration | KeyKind::Choice(_), Value::Text(_))
        | (KeyKind::Time, Value::Text(_) | Value::Time(_))
        | (KeyKind::Integer(..), Value::Integer(_))
        | (KeyKind::Fraction(..), Value::Fraction(_) | Value::Integer(_))
        | (KeyKind::Flag, Value::Flag(_))
        | (KeyKind::Texts | KeyKind::Integers(..) | KeyKind::Tables(_), Value::List(_))
        | (KeyKind::Table(_) | KeyKind::Named(_), Value::Table(_)) => true,
        (KeyKind::OneOf(kinds), _) => kinds.iter().any(|kind| type_fits(*kind, value)),
        _ => false,
    }
}

/// What a kind takes, in words.
fn expected(kind: KeyKind) -> String {
    match kind {
        KeyKind::Text | KeyKind::Choice(_) => "a text in quotes".to_owned(),
        KeyKind::Time => "a time such as \"2026-01-01T00:00:00Z\"".to_owned(),
        KeyKind::Duration => "a duration in quotes, such as \"10ms\",".to_owned(),
        KeyKind::Integer(..) => "a whole number".to_owned(),
        KeyKind::Fraction(..) => "a number".to_owned(),
        KeyKind::Flag => "true or false".to_owned(),
        KeyKind::Texts => "a list of texts".to_owned(),
        KeyKind::Integers(..) => "a list of whole numbers".to_owned(),
        KeyKind::Tables(_) => "a list of tables".to_owned(),
        KeyKind::OneOf(kinds) => kinds.iter().map(|kind| expected(*kind)).collect::<Vec<_>>().join(" or "),
        _ => "a table".to_owned(),
    }
}

/// RFC 3339: date, `T`, time to the second, zone. More spellings are read elsewhere, but one is enough here.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shaped = bytes.iter().zip(b"dddd-dd-ddTdd:dd:dd").all(|(byte, sample)| match sample {
        b'd' => byte.is_ascii_digit(),
        _ => byte == sample,
    });
    shaped && bytes.len() > "2026-01-01T00:00:00".len() && text.parse::<jiff::Timestamp>().is_ok()
}

/// Whole parts are still to come.
fn stranger_at_root(key: &str, _: &Setting, known: &[&str]) -> String {
    match ROOT_LATER.contains(&key) {
        true => format!("`{key}` is not in this version yet: take it out"),
        false => unknown(key, known),
    }
}

fn stranger(key: &str, _: &Setting, known: &[&str]) -> String {
    unknown(key, known)
}

fn unknown(key: &str, known: &[&str]) -> String {
    match words::nearest(key, known) {
        Some(near) => format!("unknown key; did you mean \"{near}\"?"),
        None => format!("unknown key (known: {})", words::listed(known)),
    }
}

/// In `[keys.X]` a text under a strange name is most likely the secret itself: it is not repeated in the message.
fn secret_or_unknown(key: &str, setting: &Setting, known: &[&str]) -> String {
    let may_be_secret = matches!(setting.value, Value::Text(_) | Value::List(_));
    if may_be_secret && words::nearest(key, known).is_none() {
        return "a secret must not stand in the config: put it into a file or an environment variable, and write \
                `file = \"…\"` or `env = \"…\"`"
            .to_owned();
    }
    unknown(key, known)
}

/// A key that the entity's scheme does not take may be one of another scheme.
fn stranger_in_entity(key: &str, own: &str, offers: &[Offer], known: &[&str]) -> String {
    let of_others: Vec<(&str, &str)> = offers
        .iter()
        .filter(|other| other.name != own)
        .flat_map(|other| other.keys.iter().map(|key| (key.name, other.name)))
        .filter(|(name, _)| !known.contains(name))
        .collect();
    let owners = |key: &str| {
        let owners: Vec<&str> = of_others.iter().filter(|(name, _)| *name == key).map(|(_, owner)| *owner).collect();
        format!("a key of {}, not of {own}", owners.join(" and "))
    };
    if of_others.iter().any(|(name, _)| *name == key) {
        return format!("`{key}` is {} (known: {})", owners(key), words::listed(known));
    }
    if words::nearest(key, known).is_some() {
        return unknown(key, known);
    }
    let names: Vec<&str> = of_others.iter().map(|(name, _)| *name).collect();
    match words::nearest(key, &names) {
        Some(near) => format!("unknown key; `{near}` is {} (known: {})", owners(near), words::listed(known)),
        None => unknown(key, known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_zone_and_one_spelling() {
        for good in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00+02:00"] {
            assert!(is_time(good), "{good}");
        }
        for bad in [
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "20260101T000000Z",
            "2026-01-01 00:00:00Z",
            "",
        ] {
            assert!(!is_time(bad), "{bad}");
        }
    }
}
