//! What leaves the house in place of an id: encrypted public ids, and the text of secret tokens.
//!
//! Internal ids leak. A Snowflake shows its time, its worker and the rate; a counter shows volume. A public id shows
//! none of that and names exactly one id of one entity in one realm.
//!
//! | form | promise | for |
//! |---|---|---|
//! | `token` | authenticated, deterministic | ids in URLs and interfaces: the default |
//! | `token` with `context` | authenticated, context-bound | ids that open for one tenant or user only |
//! | `short` | weakly authenticated, or obfuscation only | links people type |
//! | `number` | hides the sequence; existence can be probed | order numbers, read over the phone |
//! | `uuid` | authenticated for 64-bit ids; else hides time and counter only | interfaces that insist on a UUID |
//! | `plain` | hides nothing | ids that may be seen |
//!
//! Three invariants: one text an id and one id a text; a refused text is refused at the same cost whatever the cause;
//! no error, no `Debug` and no log line carries a key, a token or an id.
//!
//! `short`, `number` and `uuid` stand on FF1 (NIST SP 800-38G), behind the feature `ff1`, which is on by default. Its
//! documents: US patent 8,938,067 and the letter of assurance that its holder gave to NIST.

mod alphabet;
mod bearer;
mod codec;
mod contract;
pub(crate) mod damm;
mod error;
mod facts;
#[cfg(feature = "ff1")]
mod ff1;
mod form;
mod human;
mod key_source;
mod keys;
#[cfg(feature = "ff1")]
mod number;
mod plain;
mod prefixed;
mod rotation;
mod settings;
#[cfg(feature = "ff1")]
mod short;
mod text;
mod token;
#[cfg(feature = "ff1")]
mod uuid;
mod width;
mod wrap;

pub use alphabet::Alphabet;
pub use bearer::{BearerFormat, BearerHash, BearerToken};
pub use codec::Codec;
pub use contract::PublicIdCodec;
pub use error::{EncodeError, Malformed, PublicIdError};
pub use form::{Fill, FormError, MAX_FILL_DEFAULT, PublicForm, Redundancy, Stage, UuidPlain};
pub use key_source::{EnvKeys, FileKeys, KeyChange, KeySource};
pub use keys::{KeyCheckValue, KeyError, KeyStart, Keyring, MASTER_LEN, Reissue, StartAt};
pub use settings::Subject;
pub use text::PublicText;
