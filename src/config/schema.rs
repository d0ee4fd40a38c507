//! The JSON Schema (draft-07) of `mintage.toml`, from the key tables that the reader uses: what one takes, the other takes.
//!
//! Editors read it for completion and for faults as you type. What only the whole shows (a name that is not there, a
//! layout of 65 bits) is the reader's alone.

use mintage_core::{
    TokenRow,
    plugin::{Catalog, Key, KeyKind},
};
use serde_json::{Map, Value, json};

use super::{
    keys::{
        BEARER, BEARER_PREFIX, ENTITY, ENTITY_NAME, Grammar, INSTANCE, MASTER, NAME, PASSWORD, POOL, PREFIX, PUBLIC,
        REALM, ROOT, SCOPE, SERIES, STAGE, STORE, URL, VARIABLE,
    },
    offer::Offer,
};

/// The schema for the schemes of `catalog`.
pub fn schema(catalog: &Catalog) -> Value {
    let mut schema = table(ROOT);
    set(&mut schema, "$schema", json!("http://json-schema.org/draft-07/schema#"));
    set(&mut schema, "title", json!("mintage.toml"));
    set(&mut schema, "required", json!(["version", "stores"]));
    set(&mut schema, "anyOf", json!([{ "required": ["entities"] }, { "required": ["series"] }]));
    let properties = &mut schema["properties"];
    restrict(&mut properties["realm"], &REALM);
    for (section, grammar, each) in [
        ("entities", &ENTITY_NAME, json!({ "$ref": "#/definitions/entity" })),
        ("series", &ENTITY_NAME, series()),
        ("workers", &NAME, pool()),
        ("regions", &NAME, region()),
        ("stores", &NAME, store(catalog)),
        ("keys", &NAME, master()),
    ] {
        let about = properties[section]["description"].take();
        properties[section] = named(grammar, each);
        properties[section]["description"] = about;
    }
    for section in ["entities", "stores"] {
        properties[section]["minProperties"] = json!(1);
    }
    schema["definitions"] = json!({ "entity": entity(catalog), "public": public() });
    schema
}

/// Any entity: the keys of its scheme and no others.
fn entity(catalog: &Catalog) -> Value {
    let offers = Offer::all(catalog);
    let names: Vec<&str> = offers.iter().map(|offer| offer.name).collect();
    let abouts: Vec<String> = offers.iter().map(|offer| format!("{}: {}", offer.name, offer.about)).collect();
    let branches: Vec<Value> = offers.iter().map(branch).collect();
    let mut entity = table(ENTITY);
    if let Some(entity) = entity.as_object_mut() {
        entity.remove("additionalProperties");
        entity.insert("required".to_owned(), json!(["scheme"]));
        entity.insert("allOf".to_owned(), Value::Array(branches));
    }
    let about = format!("How its ids are made. {}", abouts.join(" "));
    entity["properties"]["scheme"] = json!({ "enum": names, "description": about });
    entity["properties"]["public"] = json!({ "$ref": "#/definitions/public" });
    entity
}

fn branch(offer: &Offer) -> Value {
    let mut then = table(&offer.keys);
    then["properties"]["scheme"] = json!({ "const": offer.name, "description": offer.about });
    if offer.has("public") {
        then["properties"]["public"] = json!({ "$ref": "#/definitions/public" });
    }
    if offer.name == BEARER {
        tokens(&mut then);
    }
    json!({
        "if": { "properties": { "scheme": { "const": offer.name } }, "required": ["scheme"] },
        "then": then,
    })
}

/// What the keys of bearer tokens take beyond their type.
fn tokens(entity: &mut Value) {
    entity["required"] = json!(["prefix"]);
    restrict(&mut entity["properties"]["prefix"], &BEARER_PREFIX);
    let scopes = &mut entity["properties"]["scopes"];
    restrict(&mut scopes["items"], &SCOPE);
    set(scopes, "maxItems", json!(TokenRow::SCOPES_MAX));
    set(scopes, "uniqueItems", json!(true));
}

fn public() -> Value {
    let mut public = table(PUBLIC);
    public["description"] = json!(about_of(ENTITY, "public"));
    restrict(&mut public["properties"]["prefix"], &PREFIX);
    public["not"] = json!({ "required": ["digits", "stages"] });
    let mut stage = table(STAGE);
    stage["required"] = json!(["base", "lo", "hi"]);
    public["properties"]["stages"]["items"] = stage;
    public
}

fn series() -> Value {
    let mut series = table(SERIES);
    series["required"] = json!(["format"]);
    series
}

fn pool() -> Value {
    let mut pool = table(POOL);
    restrict(&mut pool["properties"]["instance"], &INSTANCE);
    pool
}

fn region() -> Value {
    json!({
        "type": "string",
        "pattern": r"^(0|[1-9][0-9]*)\.\.[1-9][0-9]*$",
        "description": "The first worker id of the region and one past its last, such as 0..256.",
    })
}

fn store(catalog: &Catalog) -> Value {
    let kinds: Vec<String> = catalog.backends().iter().map(|factory| literal(factory.url_scheme())).collect();
    let url = json!({ "type": "string", "pattern": format!("^({}):", kinds.join("|")) });
    let mut elsewhere = in_one_place(URL);
    elsewhere["properties"]["default"]["pattern"] = url["pattern"].clone();
    elsewhere["dependencies"] = json!({ "default": ["env"] });
    let mut store = table(STORE);
    store["required"] = json!(["url"]);
    store["properties"]["url"]["anyOf"] = json!([url, elsewhere]);
    let mut password = in_one_place(PASSWORD);
    password["description"] = json!(about_of(STORE, "password"));
    store["properties"]["password"] = password;
    store
}

fn master() -> Value {
    in_one_place(MASTER)
}

/// What comes from a file or from a variable, not from both.
fn in_one_place(keys: &[Key]) -> Value {
    let mut place = table(keys);
    restrict(&mut place["properties"]["env"], &VARIABLE);
    place["properties"]["file"]["minLength"] = json!(1);
    place["oneOf"] = json!([{ "required": ["file"] }, { "required": ["env"] }]);
    place
}

fn table(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), described(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn named(grammar: &Grammar, each: Value) -> Value {
    let mut names = json!({});
    restrict(&mut names, grammar);
    json!({ "type": "object", "propertyNames": names, "additionalProperties": each })
}

fn described(key: &Key) -> Value {
    let mut schema = kind(key.kind);
    set(&mut schema, "description", json!(key.about));
    schema
}

fn kind(kind: KeyKind) -> Value {
    match kind {
        KeyKind::Text => json!({ "type": "string" }),
        KeyKind::Time => json!({ "type": "string", "format": "date-time" }),
        KeyKind::Duration => json!({ "type": "string", "pattern": "^(0|[1-9][0-9]*)(ms|s|m|h|d)$" }),
        KeyKind::Integer(least, most) if least == most => json!({ "const": least }),
        KeyKind::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        KeyKind::Fraction(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        KeyKind::Flag => json!({ "type": "boolean" }),
        KeyKind::Choice(choices) => json!({ "enum": choices }),
        KeyKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        KeyKind::Integers(least, most) => {
            json!({ "type": "array", "items": self::kind(KeyKind::Integer(least, most)) })
        }
        KeyKind::Table(keys) => table(keys),
        KeyKind::Named(keys) => json!({ "type": "object", "additionalProperties": table(keys) }),
        KeyKind::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        KeyKind::OneOf(kinds) => json!({ "anyOf": kinds.iter().map(|one| self::kind(*one)).collect::<Vec<_>>() }),
        // A kind this version does not know restricts nothing.
        _ => json!({}),
    }
}

/// `text` as a regular expression that matches it alone. URL schemes have no character but `+`, `-` and `.` to escape.
fn literal(text: &str) -> String {
    text.replace('.', r"\.").replace('+', r"\+")
}

fn restrict(schema: &mut Value, grammar: &Grammar) {
    set(schema, "pattern", json!(grammar.pattern));
    set(schema, "minLength", json!(grammar.length.start()));
    set(schema, "maxLength", json!(grammar.length.end()));
}

fn set(schema: &mut Value, key: &str, value: Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(key.to_owned(), value);
    }
}

fn about_of(keys: &[Key], name: &str) -> &'static str {
    keys.iter().find(|key| key.name == name).map_or("", |key| key.about)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each name has its grammar twice, as code and as a pattern: they must not part.
        #[test]
        fn patterns_say_what_the_reader_does(text in "[a-zA-Z0-9_.\\- é\\n\u{85}]{0,6}|[a-z][a-z0-9_-]{0,140}|[a-z_0-9]{0,36}|[ab_]{5,8}_|[a-z][a-z0-9:._-]{62,64}") {
            for grammar in [&ENTITY_NAME, &NAME, &REALM, &PREFIX, &BEARER_PREFIX, &SCOPE, &VARIABLE, &INSTANCE] {
                let mut schema = json!({ "type": "string" });
                restrict(&mut schema, grammar);
                let taken = jsonschema::draft7::is_valid(&schema, &json!(text));
                prop_assert_eq!(taken, grammar.fits(&text), "{} {:?}", grammar.pattern, text);
            }
        }
    }

    #[test]
    fn url_schemes_stand_for_themselves_in_patterns() {
        assert_eq!(literal("sqlite"), "sqlite");
        assert_eq!(literal("a+b.c-d"), r"a\+b\.c-d");
    }
}
