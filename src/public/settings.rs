//! `public = { … }` of an entity, read into a form that is known to be sound.

use mintage_core::{
    Bits, Order, SchemeInfo,
    plugin::{Setting, Settings, Value},
};

use crate::public::{
    Alphabet, FormError, PublicForm,
    form::{DIGITS_MAX, DIGITS_MIN, Redundancy, Stage, UuidPlain, is_prefix},
};

/// What the config says about the entity besides.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The entity's name.
    pub entity: &'a str,
    /// How its ids are made.
    pub scheme: &'a SchemeInfo,
    /// The first id of a dense sequence; `None` where ids are not dense.
    pub dense_from: Option<u64>,
}

/// The keys that only some forms take.
const KEYS: &[(&str, &[&str])] = &[
    ("prefix", &["token", "short"]),
    ("alphabet", &["token"]),
    ("case_sensitive", &["token"]),
    ("context", &["token"]),
    ("allow_unauthenticated", &["short"]),
    ("digits", &["number"]),
    ("stages", &["number"]),
    ("max_fill", &["number"]),
    ("group", &["number"]),
    ("uuid", &["uuid"]),
    ("key", &["token", "short", "number", "uuid"]),
];
const FORMS: &[&str] = &["token", "short", "number", "uuid", "plain"];
const UUIDS: [UuidPlain; 4] = [UuidPlain::I64, UuidPlain::U7, UuidPlain::U7K4, UuidPlain::Ulid42];

impl PublicForm {
    /// Reads the table. Everything that is wrong or weak is told through `settings`; `None` if anything is wrong.
    pub fn read(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Option<Self> {
        let before = settings.refusals();
        let name = if settings.has("form") { settings.choice("form", FORMS)? } else { "token" };
        refuse_strangers(settings, name);
        let form = match name {
            "token" => token(settings, subject),
            "short" => short(settings, subject),
            "number" => number(settings, subject),
            "uuid" => uuid(settings, subject),
            _ => Ok(Self::plain(subject.scheme.kind)),
        };
        let form = form.map(|form| match settings.text("key") {
            Some(key) => form.under_key(key),
            None => form,
        });
        match form {
            Ok(form) if settings.refusals() == before => {
                warn(settings, &form, subject);
                Some(form)
            }
            Ok(_) => None,
            Err(error) => {
                settings.refuse(error.key(), error.message());
                None
            }
        }
    }
}

fn refuse_strangers(settings: &mut Settings<'_>, form: &str) {
    for (key, forms) in KEYS {
        if settings.has(key) && !forms.contains(&form) {
            settings.refuse(key, format!("not for `form = \"{form}\"`, only for {}: take it out", forms.join(", ")));
        }
    }
}

fn token(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Result<PublicForm, FormError> {
    let form = prefix(settings, subject).and_then(|prefix| PublicForm::token(&prefix, subject.scheme.kind));
    let rest = token_alphabet(settings);
    // Both are told: the first here, if it is not the only one.
    let (form, (alphabet, context)) = match (form, rest) {
        (Ok(form), Ok(rest)) => (form, rest),
        (Err(error), Err(other)) => {
            settings.refuse(error.key(), error.message());
            return Err(other);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let form = if context { form.with_context()? } else { form };
    form.in_alphabet(alphabet)
}

/// The alphabet of a token, and whether it is bound to a context.
fn token_alphabet(settings: &mut Settings<'_>) -> Result<(Alphabet, bool), FormError> {
    let alphabet = match settings.choice("alphabet", &["crockford", "base62", "novowel"]) {
        Some("base62") => Alphabet::Base62,
        Some("novowel") => Alphabet::NoVowel,
        _ => Alphabet::Crockford,
    };
    let case_sensitive = settings.flag("case_sensitive").unwrap_or(false);
    if (alphabet == Alphabet::Base62) != case_sensitive {
        let fault = "base62 and `case_sensitive = true` go together: a column or a link that folds case would merge \
                     different ids, so say that none does";
        return Err(FormError::new(if case_sensitive { "case_sensitive" } else { "alphabet" }, fault));
    }
    Ok((alphabet, settings.flag("context").unwrap_or(false)))
}

fn short(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Result<PublicForm, FormError> {
    if subject.scheme.kind != Bits::Int {
        return Err(FormError::new("form", "short takes 64-bit ids only: use a token"));
    }
    let redundancy = match settings.flag("allow_unauthenticated") {
        Some(true) => Redundancy::None,
        _ => Redundancy::Bits32,
    };
    PublicForm::short(&prefix(settings, subject)?, redundancy)
}

fn number(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Result<PublicForm, FormError> {
    let Some(start) = subject.dense_from else {
        let fault = "numbers need ids that are dense, as those of `scheme = \"segment\"`: use a token";
        return Err(FormError::new("form", fault));
    };
    let form = match (settings.get("stages"), settings.has("digits")) {
        (Some(_), true) => return Err(FormError::new("stages", "says what `digits` says too: keep one of them")),
        (Some(stages), false) => PublicForm::stages(read_stages(stages)?)?,
        (None, _) => {
            let digits = settings.integer("digits", i64::from(DIGITS_MIN)..=i64::from(DIGITS_MAX));
            let digits = digits.and_then(|digits| u32::try_from(digits).ok());
            // A wrong value has been told by now.
            let missing =
                || FormError::new("digits", "missing or wrong: write `digits = 12`, the check digit included");
            PublicForm::number(digits.ok_or_else(missing)?, start)?
        }
    };
    let form = match settings.has("max_fill") {
        true => form.with_max_fill(settings.fraction("max_fill").unwrap_or(f64::NAN))?,
        false => form,
    };
    match settings.integer("group", 1..=i64::from(DIGITS_MAX)).and_then(|digits| u8::try_from(digits).ok()) {
        Some(digits) => form.in_groups_of(digits),
        None => Ok(form),
    }
}

fn uuid(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Result<PublicForm, FormError> {
    let given = settings.choice("uuid", &UUIDS.map(UuidPlain::name));
    let given = UUIDS.into_iter().find(|plain| Some(plain.name()) == given);
    let refuse = |message: &str| Err(FormError::new("uuid", message));
    let plain = match (subject.scheme.kind, given) {
        (Bits::Int, None | Some(UuidPlain::I64)) => UuidPlain::I64,
        (Bits::Int, _) => return refuse("these are 64-bit ids: write \"i64\""),
        (Bits::Wide, Some(UuidPlain::I64) | None) => {
            return refuse(
                "these are 128-bit ids: write \"u7k4\" (UUIDv7, until 2109), \"u7\" (UUIDv7) or \"ulid42\" (ULID)",
            );
        }
        (Bits::Wide, Some(plain)) => plain,
        _ => return Err(FormError::new("form", "ids of 160 bits do not fit a UUID: use a token")),
    };
    match (plain, subject.scheme.name.as_ref()) {
        (_, "uuidv4") => refuse("a UUIDv4 says nothing that a UUID could hide: use a token, or plain"),
        (UuidPlain::U7 | UuidPlain::U7K4, "ulid") => refuse("ULIDs have no UUID version: write \"ulid42\""),
        (UuidPlain::Ulid42, "uuidv7") => refuse("these are UUIDv7: write \"u7k4\" or \"u7\""),
        _ => Ok(PublicForm::uuid(plain)),
    }
}

fn prefix(settings: &mut Settings<'_>, subject: &Subject<'_>) -> Result<String, FormError> {
    if settings.has("prefix") {
        // A value of another kind has been told by now.
        return Ok(settings.text("prefix").unwrap_or("x1").to_owned());
    }
    let prefix = subject.entity.replace('-', "_");
    let missing =
        || FormError::new("prefix", "missing, and the entity's name will not do: write a short one, such as ord");
    Some(prefix).filter(|prefix| is_prefix(prefix)).ok_or_else(missing)
}

fn read_stages(setting: &Setting) -> Result<Vec<Stage>, FormError> {
    let wrong = |fault: String| FormError::new("stages", fault);
    let Value::List(items) = &setting.value else {
        return Err(wrong("a list of tables was expected: [{ base = 1, lo = 1000000, hi = 9000000 }]".to_owned()));
    };
    items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let Value::Table(table) = &item.value else { return Err(wrong(format!("[{at}] is no table"))) };
            let field = |name: &str| table.iter().find(|(key, _)| key == name).map(|(_, setting)| &setting.value);
            let number = |name: &str| match field(name) {
                Some(Value::Integer(number)) => {
                    u64::try_from(*number).map_err(|_| wrong(format!("[{at}].{name} is below 0")))
                }
                _ => Err(wrong(format!("[{at}] needs `{name}`, a whole number"))),
            };
            let key = match field("key") {
                None => None,
                Some(Value::Text(key)) => Some(key.clone()),
                Some(_) => return Err(wrong(format!("[{at}].key is the name of a block of [keys]"))),
            };
            Ok(Stage { base: number("base")?, lo: number("lo")?, hi: number("hi")?, key })
        })
        .collect()
}

fn warn(settings: &mut Settings<'_>, form: &PublicForm, subject: &Subject<'_>) {
    if form.is_case_sensitive() {
        let fault = "base62 tells ids apart by letter case: keep them only in columns that compare it (COLLATE \"C\", \
                     utf8mb4_bin, BINARY), for one that ignores it takes two ids for one";
        settings.warn("alphabet", fault);
    }
    match form.name() {
        "plain" if subject.scheme.order != Order::Chance => {
            let fault = "plain ids of this scheme show when or in which order they were made, and how many there are: \
                         a token hides that";
            settings.warn("form", fault);
        }
        "short" | "uuid" if !form.authenticates() => {
            let fault =
                format!("{}: texts that nobody was given open something too, so always look the id up", form.label());
            settings.warn("form", fault);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use mintage_core::plugin::{Place, Problem};

    use super::*;

    const AT: Place = Place { line: 7, column: 3 };

    fn read(scheme: &SchemeInfo, keys: &[(&str, Value)]) -> (Option<PublicForm>, Vec<Problem>) {
        let table: Vec<(String, Setting)> =
            keys.iter().map(|(key, value)| ((*key).to_owned(), Setting { value: value.clone(), at: AT })).collect();
        let mut problems = Vec::new();
        let mut settings = Settings::new("entities.orders.public", Some(AT), &table, &mut problems, 0);
        let dense_from = (scheme.name == "segment").then_some(1);
        let form = PublicForm::read(&mut settings, &Subject { entity: "orders", scheme, dense_from });
        assert_eq!(form.is_none(), problems.iter().any(|problem| !problem.warning), "{problems:?}");
        (form, problems)
    }

    fn scheme(name: &'static str) -> SchemeInfo {
        match name {
            "segment" => SchemeInfo::new(name, Bits::Int, 63),
            "snowflake" => SchemeInfo::new(name, Bits::Int, 63).ordered(Order::Minter),
            "ksuid" => SchemeInfo::new(name, Bits::Long, 160).ordered(Order::Time),
            "uuidv4" => SchemeInfo::new(name, Bits::Wide, 122),
            _ => SchemeInfo::new(name, Bits::Wide, 122).ordered(Order::Time),
        }
    }

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    #[test]
    fn what_the_shipped_config_says_is_read() {
        let keys = [("form", text("token")), ("prefix", text("usr")), ("key", text("main"))];
        let (form, problems) = read(&scheme("uuidv7"), &keys);
        assert_eq!(form, Some(PublicForm::token("usr", Bits::Wide).unwrap().under_key("main")));
        assert!(problems.is_empty());
        let keys = [("form", text("number")), ("digits", Value::Integer(12)), ("key", text("main"))];
        let (form, problems) = read(&scheme("segment"), &keys);
        assert_eq!(form, Some(PublicForm::number(12, 1).unwrap().under_key("main")));
        assert!(problems.is_empty());
        assert_eq!(read(&scheme("ksuid"), &[]).0, Some(PublicForm::token("orders", Bits::Long).unwrap()));
    }

    #[test]
    fn every_key_reaches_its_form() {
        let base62 = [("alphabet", text("base62")), ("case_sensitive", Value::Flag(true))];
        assert!(read(&scheme("segment"), &base62).0.unwrap().is_case_sensitive());
        assert!(read(&scheme("segment"), &[("context", Value::Flag(true))]).0.unwrap().takes_context());
        let keys = [
            ("form", text("number")),
            ("digits", Value::Integer(10)),
            ("max_fill", Value::Fraction(0.5)),
            ("group", Value::Integer(5)),
        ];
        let form = read(&scheme("segment"), &keys).0.unwrap();
        assert_eq!(form, PublicForm::number(10, 1).unwrap().with_max_fill(0.5).unwrap().in_groups_of(5).unwrap());
        let stage = |base, lo, hi| {
            let entry = |key: &str, value| (key.to_owned(), Setting { value, at: AT });
            let table = vec![
                entry("base", Value::Integer(base)),
                entry("lo", Value::Integer(lo)),
                entry("hi", Value::Integer(hi)),
                entry("key", text("next")),
            ];
            Setting { value: Value::Table(table), at: AT }
        };
        let stages = Value::List(vec![stage(1, 1_000_000, 9_000_000), stage(8_000_001, 10_000_000, 90_000_000)]);
        let form = read(&scheme("segment"), &[("form", text("number")), ("stages", stages)]).0.unwrap();
        let stage = |base, lo, hi| Stage { base, lo, hi, key: Some("next".into()) };
        let expected =
            PublicForm::stages(vec![stage(1, 1_000_000, 9_000_000), stage(8_000_001, 10_000_000, 90_000_000)]);
        assert_eq!(form, expected.unwrap());
    }

    #[test]
    fn what_does_not_fit_is_refused_at_its_key() {
        let flag = Value::Flag(true);
        for (name, keys, at) in [
            ("segment", vec![("form", text("tokens"))], "form"),
            ("segment", vec![("prefix", text("Ord"))], "prefix"),
            ("segment", vec![("prefix", Value::Integer(5))], "prefix"),
            ("segment", vec![("alphabet", text("base62"))], "alphabet"),
            ("segment", vec![("alphabet", text("base64"))], "alphabet"),
            ("segment", vec![("case_sensitive", flag.clone())], "case_sensitive"),
            ("segment", vec![("alphabet", text("novowel")), ("context", flag.clone())], "alphabet"),
            ("segment", vec![("digits", Value::Integer(12))], "digits"),
            ("segment", vec![("form", text("number"))], "digits"),
            ("segment", vec![("form", text("number")), ("digits", Value::Integer(7))], "digits"),
            (
                "segment",
                vec![("form", text("number")), ("digits", Value::Integer(9)), ("max_fill", Value::Integer(2))],
                "max_fill",
            ),
            ("segment", vec![("form", text("number")), ("stages", Value::List(vec![]))], "stages"),
            ("segment", vec![("form", text("number")), ("stages", Value::Integer(5))], "stages"),
            ("snowflake", vec![("form", text("number")), ("digits", Value::Integer(12))], "form"),
            ("uuidv7", vec![("form", text("short"))], "form"),
            ("ksuid", vec![("form", text("uuid"))], "form"),
            ("uuidv7", vec![("form", text("uuid"))], "uuid"),
            ("uuidv7", vec![("form", text("uuid")), ("uuid", text("i64"))], "uuid"),
            ("uuidv7", vec![("form", text("uuid")), ("uuid", text("ulid42"))], "uuid"),
            ("ulid", vec![("form", text("uuid")), ("uuid", text("u7"))], "uuid"),
            ("uuidv4", vec![("form", text("uuid")), ("uuid", text("u7"))], "uuid"),
            ("segment", vec![("form", text("uuid")), ("uuid", text("u7"))], "uuid"),
            ("segment", vec![("form", text("plain")), ("key", text("main"))], "key"),
            ("segment", vec![("form", text("plain")), ("prefix", text("ord"))], "prefix"),
        ] {
            let (form, problems) = read(&scheme(name), &keys);
            assert_eq!(form, None, "{keys:?}");
            assert!(
                problems.iter().any(|problem| problem.path == format!("entities.orders.public.{at}")),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn weak_choices_are_made_with_a_warning() {
        let warned = |name, keys: &[(&str, Value)]| read(&scheme(name), keys).1.iter().any(|problem| problem.warning);
        assert!(warned("snowflake", &[("form", text("plain"))]));
        assert!(!warned("uuidv4", &[("form", text("plain"))]));
        assert!(warned("segment", &[("form", text("short")), ("allow_unauthenticated", Value::Flag(true))]));
        assert!(!warned("segment", &[("form", text("short"))]));
        assert!(warned("uuidv7", &[("form", text("uuid")), ("uuid", text("u7k4"))]));
        assert!(!warned("segment", &[("form", text("uuid"))]));
        let form = read(&scheme("segment"), &[("form", text("short")), ("allow_unauthenticated", Value::Flag(true))]).0;
        assert_eq!(form, Some(PublicForm::short("orders", Redundancy::None).unwrap()));
    }
}
