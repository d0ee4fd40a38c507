//! Ids and public ids out of JSON and out of a binary format: refused, or read as they are written.
#![no_main]

use mintage::{Entity, PublicId, entity};

entity! {
    Order: Int = "orders";
    User: Uuid = "users";
    Document: Ulid = "documents";
    Upload: Ksuid = "uploads";
}

fn raw<E: Entity>(data: &[u8]) {
    let json = &mut serde_json::Deserializer::from_slice(data);
    if let Ok(id) = mintage::raw::deserialize::<E, _>(json) {
        let mut written = Vec::new();
        mintage::raw::serialize(&id, &mut serde_json::Serializer::new(&mut written)).expect("it is written");
        let again = &mut serde_json::Deserializer::from_slice(&written);
        assert_eq!(mintage::raw::deserialize::<E, _>(again).ok(), Some(id));
        assert_eq!(written.first(), Some(&b'"'), "a string");
    }
}

fn public<E: Entity>(data: &[u8]) {
    let read = [serde_json::from_slice::<PublicId<E>>(data).ok(), ciborium::from_reader(data).ok()];
    for id in read.into_iter().flatten() {
        let mut written = Vec::new();
        ciborium::into_writer(&id, &mut written).expect("it is written");
        assert_eq!(ciborium::from_reader::<PublicId<E>, _>(written.as_slice()).ok(), Some(id));
        assert_eq!(id.as_str().parse(), Ok(id));
        assert!(id.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    raw::<Order>(data);
    raw::<User>(data);
    raw::<Document>(data);
    raw::<Upload>(data);
    public::<Order>(data);
});
