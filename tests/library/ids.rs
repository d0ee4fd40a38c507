//! Typed ids: what they show, how they compare, and how they travel.
//!
//! B107, B108, B121, B122, B123, B124, B178.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::{self, Debug},
};

use mintage::{Entity, Id, Kind};
use mintage_core::ParseError;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, DeserializeOwned,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Value, json};

use crate::{Document, Event, Order, Token, Upload, User};

const V4: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
const V7: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const KSUID: &str = "0ujtsYcgvSTl8PAuAdqWYSMnLOv";

/// An id alone, as a field holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
struct Raw<E: Entity>(#[serde(with = "mintage::raw")] Id<E>);

/// Reads the text of an id.
fn id<E: Entity>(text: &str) -> Id<E> {
    read(json!(text)).unwrap()
}

fn read<E: Entity>(value: Value) -> Result<Id<E>, serde_json::Error> {
    serde_json::from_value::<Raw<E>>(value).map(|raw| raw.0)
}

fn cbor(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    ciborium::from_reader(bytes).map_err(|error| error.to_string())
}

// ---- what an id is to the program ----

#[test]
fn debug_tells_the_entity_and_nothing_else_prints() {
    assert_eq!(format!("{:?}", Id::<Order>::from_raw(42).unwrap()), "orders(42)");
    assert_eq!(format!("{:?}", id::<User>(V7)), format!("users({V7})"));
    assert_eq!(format!("{:?}", id::<Document>(ULID)), format!("documents({ULID})"));
    assert_eq!(format!("{:?}", id::<Upload>(KSUID)), format!("uploads({KSUID})"));
}

/// Each of these compiles only while the trait is missing: with it, two impls would fit and the call would be ambiguous.
#[test]
fn an_id_does_not_leave_the_process_by_accident() {
    trait Lacks<Marker> {
        fn it() {}
    }
    struct Anything;
    struct Printing;
    struct Serializing;
    impl<T: ?Sized> Lacks<Anything> for T {}
    impl<T: ?Sized + fmt::Display> Lacks<Printing> for T {}
    impl<T: ?Sized + Serialize> Lacks<Serializing> for T {}
    <Id<Order> as Lacks<_>>::it();
    <Id<User> as Lacks<_>>::it();
    <Id<Document> as Lacks<_>>::it();
    <Id<Upload> as Lacks<_>>::it();
}

#[test]
fn ids_are_plain_values() {
    fn plain<T: Copy + Ord + std::hash::Hash + Debug + Send + Sync + Unpin + 'static>() {}
    plain::<Id<Order>>();
    plain::<Id<Upload>>();
    assert_eq!((size_of::<Id<Order>>(), size_of::<Id<User>>(), size_of::<Id<Upload>>()), (8, 16, 20));

    let ids: Vec<Id<Order>> = [3, 1, 2, 1].map(|number| Id::from_raw(number).unwrap()).to_vec();
    let sorted: BTreeSet<Id<Order>> = ids.iter().copied().collect();
    let raw: Vec<u64> = sorted.iter().map(|id| id.raw()).collect();
    assert_eq!(raw, [1, 2, 3]);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
    assert!(ids[0] > ids[1] && ids[1] == ids[3] && ids[1] <= ids[3]);
    let copy = ids[0];
    assert_eq!(copy, ids[0], "copied, not moved");

    // By value, whatever the letters say: KSUIDs and ULIDs sort as their bytes.
    let (early, late) = ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", "0ujtsYcgvSTl8PAuAdqWYSMnLOw");
    assert!(id::<Upload>(early) < id::<Upload>(late));
    assert!(id::<Document>(ULID) < id::<Document>("01ARZ3NDEKTSV4RRFFQ69G5FAW"));
    assert!(id::<User>(V7) < id::<User>(V4));
}

/// B107, B108: a number no signed column holds is no id, at any door.
#[test]
fn numbers_beyond_the_sign_are_refused() {
    assert_eq!(Id::<Order>::from_raw(u64::MAX >> 1).unwrap().raw(), 9_223_372_036_854_775_807);
    for above in [1 << 63, (1 << 63) + 1, u64::MAX] {
        assert_eq!(Id::<Order>::from_raw(above), Err(ParseError::OutOfRange));
        assert!(read::<Order>(json!(above.to_string())).is_err(), "{above}");
        assert!(from_cbor::<Raw<Order>>(&cbor(&above)).is_err(), "{above}");
    }
    for negative in [-1_i64, i64::MIN, -42] {
        assert!(read::<Order>(json!(negative.to_string())).is_err(), "{negative}");
        assert!(from_cbor::<Raw<Order>>(&cbor(&negative)).is_err(), "{negative}");
    }
    assert!(from_cbor::<Raw<Order>>(&cbor(&42.0)).is_err(), "a float");
    assert!(from_cbor::<Raw<Order>>(&cbor(&"42")).is_err(), "a text where binary formats hold a number");
    assert!(from_cbor::<Raw<Order>>(&cbor(&(u128::from(u64::MAX) + 1))).is_err());
}

#[test]
fn raw_types_there_and_back() {
    let uuid = uuid::Uuid::parse_str(V7).unwrap();
    assert_eq!(Id::<User>::from_raw(uuid).unwrap().raw(), uuid);
    let ulid = ulid::Ulid::from_string(ULID).unwrap();
    assert_eq!(Id::<Document>::from_raw(ulid).unwrap().raw(), ulid);
    let ksuid = id::<Upload>(KSUID).raw();
    assert_eq!(ksuid.to_string(), KSUID);
    assert_eq!(Id::<Upload>::from_raw(ksuid), Ok(id(KSUID)));
    assert_eq!(<mintage::kind::Int as Kind>::NAME, "Int");
}

// ---- one id in one format ----

/// B121: text where people read, bytes where they do not, and each is read back as it was written.
#[test]
fn json_holds_text_and_cbor_holds_bytes() {
    let token = "77459ff3-c409-4d6a-a0a3-8b51ba3b56cf";
    let bytes = cbor(&Raw(id::<Token>(token)));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5077459ff3c4094d6aa0a38b51ba3b56cf");
    assert_eq!(bytes.len(), 17);

    assert_eq!(cbor(&Raw(id::<Order>("42"))), [0x18, 42], "an integer");
    let most = cbor(&Raw(id::<Order>("9223372036854775807")));
    assert_eq!(most, [0x1b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let ulid = cbor(&Raw(id::<Document>(ULID)));
    assert_eq!((ulid[0], ulid.len()), (0x50, 17));
    let ksuid = cbor(&Raw(id::<Upload>(KSUID)));
    assert_eq!((ksuid[0], ksuid.len()), (0x54, 21));

    there_and_back::<Token>(token);
    there_and_back::<User>(V7);
    there_and_back::<Document>(ULID);
    there_and_back::<Upload>(KSUID);
    for number in ["0", "1", "9007199254740993", "9223372036854775807"] {
        there_and_back::<Order>(number);
    }
}

fn there_and_back<E: Entity>(text: &str) {
    let id = Raw(id::<E>(text));
    assert_eq!(serde_json::to_value(id).unwrap(), json!(text), "always a string");
    assert_eq!(from_cbor::<Raw<E>>(&cbor(&id)), Ok(id));
    // A map's values, a list, an option: serde hands the same calls on.
    assert_eq!(from_cbor::<Vec<Raw<E>>>(&cbor(&[id, id])), Ok(vec![id, id]));
    assert_eq!(serde_json::from_value::<Option<Raw<E>>>(json!(text)).unwrap(), Some(id));
    assert_eq!(from_cbor::<Option<Raw<E>>>(&cbor(&Some(id))), Ok(Some(id)));
}

/// B123, B124: what a reader with 53 bits would round, and two that it would take for one.
#[test]
fn json_keeps_every_digit() {
    for text in
        ["1253261109769874438", "675127116845989888", "800356270543470622", "68267599263309459", "68267599263309460"]
    {
        let body = serde_json::to_string(&Raw(id::<Event>(text))).unwrap();
        assert_eq!(body, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Raw<Event>>(&body).unwrap().0, id(text));
    }
    let neighbours = [id::<Event>("68267599263309459"), id("68267599263309460")].map(Raw);
    assert_eq!(serde_json::to_string(&neighbours).unwrap(), r#"["68267599263309459","68267599263309460"]"#);
}

/// One text for each id, and no other type in its place.
#[test]
fn json_takes_nothing_else() {
    let wrong = |value: Value| {
        assert!(read::<Order>(value.clone()).is_err(), "{value} as Int");
        assert!(read::<User>(value.clone()).is_err(), "{value} as Uuid");
        assert!(read::<Document>(value.clone()).is_err(), "{value} as Ulid");
        assert!(read::<Upload>(value.clone()).is_err(), "{value} as Ksuid");
    };
    for value in [json!(738529527931269425_u64), json!(0), json!(-1), json!(1.0), json!(1e15), json!(null), json!(true)]
    {
        wrong(value);
    }
    for value in [json!([1]), json!({"id": "1"}), json!([0x77, 0x45]), json!(""), json!(" 1"), json!("1 "), json!("+1")]
    {
        wrong(value);
    }
    for text in ["01", "1_000", "1e3", "0x1", "１", "-1", "9223372036854775808", "18446744073709551615"] {
        assert!(read::<Order>(json!(text)).is_err(), "{text}");
    }
    for text in [
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        "017f22e279b07cc398c4dc0c0c07398f",
        ULID,
        "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ] {
        assert!(read::<User>(json!(text)).is_err(), "{text}");
    }
    for text in ["8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAU", V7, "01ARZ3NDEKTSV4RRFFQ69G5FA"] {
        assert!(read::<Document>(json!(text)).is_err(), "{text}");
    }
    for text in ["aWgEPTl1tmebfsQzFP4bxwgy80W", "zzzzzzzzzzzzzzzzzzzzzzzzzzz", "0ujtsYcgvSTl8PAuAdqWYSMnLO"] {
        assert!(read::<Upload>(json!(text)).is_err(), "{text}");
    }
    let error = read::<Order>(json!(7)).unwrap_err().to_string();
    assert!(error.contains("an id of orders as a string"), "the error says what belongs here: {error}");
}

#[test]
fn canonical_forms() {
    assert_eq!(id::<Document>(&ULID.to_lowercase()), id::<Document>(ULID), "a ULID is read in either case");
    assert_eq!(serde_json::to_value(Raw(id::<Document>(&ULID.to_lowercase()))).unwrap(), json!(ULID));
    assert_eq!(id::<User>(&V7.to_uppercase()), id::<User>(V7), "so is a UUID");
    assert_eq!(serde_json::to_value(Raw(id::<User>(&V7.to_uppercase()))).unwrap(), json!(V7));
    assert!(read::<Upload>(json!(KSUID.to_lowercase())).map_or(true, |other| other != id(KSUID)), "a KSUID is not");
    assert_eq!(serde_json::to_value(Raw(id::<Upload>(KSUID))).unwrap(), json!(KSUID));
}

/// B178: a table on its way from UUIDv4 to UUIDv7 holds both, and so do its readers.
#[test]
fn a_uuid_entity_takes_every_version() {
    for text in [V4, V7, "c232ab00-9414-11ec-b3c8-9f6bdeced846", "1ec9414c-232a-6b00-b3c8-9f6bdeced846"] {
        there_and_back::<User>(text);
    }
}

// ---- an id inside other things (B122) ----

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
struct Row<E: Entity> {
    #[serde(with = "mintage::raw")]
    id: Id<E>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
struct Flat<E: Entity> {
    r#type: String,
    #[serde(flatten)]
    row: Row<E>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", tag = "type", rename_all = "lowercase")]
enum Tagged<E: Entity> {
    X(Row<E>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", tag = "type", content = "content", rename_all = "lowercase")]
enum Adjacent<E: Entity> {
    X(Row<E>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", untagged)]
enum Untagged<E: Entity> {
    Whole(Flat<E>),
    Row(Row<E>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", tag = "type", rename_all = "lowercase")]
enum FlatInTag<E: Entity> {
    X {
        #[serde(flatten)]
        row: Row<E>,
    },
}

/// Every combination, through JSON: what it becomes, that a string is read back, and that anything else is refused.
fn inside_json<T: Serialize + DeserializeOwned + Debug + PartialEq>(
    name: &str,
    whole: T,
    text: &str,
    put: fn(Value) -> Value,
) {
    assert_eq!(serde_json::to_value(&whole).unwrap(), put(json!(text)), "{name}");
    assert_eq!(serde_json::from_value::<T>(put(json!(text))).unwrap(), whole, "{name}");
    let body = put(json!(text)).to_string();
    assert_eq!(serde_json::from_str::<T>(&body).unwrap(), whole, "{name}: {body}");
    let numbers = [json!(738529527931269425_u64), json!(5), json!(-5), json!(5.5), json!(1e30)];
    // What serde_json hands over for a number once some crate of the build has turned `arbitrary_precision` on.
    let precise = ["738529527931269425", "5", "1e30"].map(|digits| json!({ "$serde_json::private::Number": digits }));
    for wrong in numbers.into_iter().chain(precise).chain([json!([1, 2]), json!(null), json!(true)]) {
        let body = put(wrong).to_string();
        assert!(serde_json::from_str::<T>(&body).is_err(), "{name}: {body}");
    }
}

fn inside_cbor<T: Serialize + DeserializeOwned + Debug + PartialEq>(name: &str, whole: &T, fits: bool) {
    let read = from_cbor::<T>(&cbor(whole));
    if fits {
        assert_eq!(read.as_ref(), Ok(whole), "{name}");
    } else {
        assert!(read.is_err(), "{name}: a number is refused, never misread");
    }
}

fn inside<E: Entity>(text: &str, numbers: bool) {
    let row = || Row { id: id::<E>(text) };
    let flat = || Flat { r#type: "x".to_owned(), row: row() };
    let beside = |id: Value| json!({"type": "x", "id": id});
    inside_json("struct", row(), text, |id| json!({"id": id}));
    inside_json("flatten", flat(), text, beside);
    inside_json("tag", Tagged::X(row()), text, beside);
    inside_json("adjacent", Adjacent::X(row()), text, |id| json!({"type": "x", "content": {"id": id}}));
    inside_json("untagged", Untagged::Row(row()), text, |id| json!({"id": id}));
    inside_json("flatten in untagged", Untagged::Whole(flat()), text, beside);
    inside_json("flatten in tag", FlatInTag::X { row: row() }, text, beside);

    // There serde buffers the value and forgets which format it came from, so a number may be JSON's as well.
    inside_cbor("struct", &row(), true);
    inside_cbor("flatten", &flat(), !numbers);
    inside_cbor("tag", &Tagged::X(row()), !numbers);
    inside_cbor("adjacent", &Adjacent::X(row()), true);
    inside_cbor("untagged", &Untagged::Row(row()), !numbers);
    inside_cbor("flatten in untagged", &Untagged::Whole(flat()), !numbers);
    inside_cbor("flatten in tag", &FlatInTag::X { row: row() }, !numbers);
}

#[test]
fn ids_inside_flattened_and_tagged_structs() {
    inside::<Event>("738529527931269425", true);
    inside::<User>(V7, false);
    inside::<Token>(V4, false);
    inside::<Document>(ULID, false);
    inside::<Upload>(KSUID, false);
}

// ---- formats with habits of their own ----

/// A format that is not for people, over any other deserializer.
struct Binary<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Binary<D> {
    type Error = D::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// MessagePack and others hand bytes over one by one; some keep every integer as a signed one.
#[test]
fn formats_without_a_type_for_bytes_or_signs() {
    type Bytes = SeqDeserializer<std::vec::IntoIter<u8>, de::value::Error>;
    fn read<E: Entity>(bytes: Vec<u8>) -> Result<Id<E>, de::value::Error> {
        mintage::raw::deserialize(Binary(Bytes::new(bytes.into_iter())))
    }
    let uuid = uuid::Uuid::parse_str(V7).unwrap();
    assert_eq!(read::<User>(uuid.into_bytes().to_vec()), Ok(id(V7)));
    let ksuid = &cbor(&Raw(id::<Upload>(KSUID)))[1..];
    assert_eq!(read::<Upload>(ksuid.to_vec()), Ok(id(KSUID)));
    for len in [0, 1, 15, 17, 19, 20, 21, 1_000] {
        assert!(read::<User>(vec![1; len]).is_err(), "{len} bytes as a UUID");
    }
    for len in [0, 16, 19, 21, 1_000] {
        assert!(read::<Upload>(vec![1; len]).is_err(), "{len} bytes as a KSUID");
    }
    assert!(read::<Order>(vec![1; 16]).is_err(), "bytes as a number");

    let signed = |number: i64| {
        mintage::raw::deserialize::<Order, _>(Binary(de::IntoDeserializer::<de::value::Error>::into_deserializer(
            number,
        )))
    };
    assert_eq!(signed(i64::MAX), Ok(id("9223372036854775807")));
    assert!(signed(-1).unwrap_err().to_string().contains("negative"));
}

/// In front of a person's format: the map by which `arbitrary_precision` hides a number, and a borrowed text.
#[test]
fn maps_are_no_ids() {
    let hidden = [("$serde_json::private::Number", "738529527931269425")];
    let map = MapDeserializer::<_, de::value::Error>::new(hidden.into_iter());
    assert!(mintage::raw::deserialize::<Event, _>(map).is_err());
    let text = StrDeserializer::<de::value::Error>::new("738529527931269425");
    assert_eq!(mintage::raw::deserialize::<Event, _>(text), Ok(id("738529527931269425")));
}
