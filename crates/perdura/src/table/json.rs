//! Values of tables as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Value;
use crate::Error;

/// A value of a table that is stored as JSON: any type that serde serializes (feature `serde`). The
/// insert refuses values that JSON cannot represent, such as a map whose keys are no strings.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Json, Options, Perdura, Table};
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct User {
///     name: String,
///     tags: Vec<String>,
/// }
///
/// let store = Perdura::open(Options::volatile())?;
/// let users: Table<u64, Json<User>> = store.table("users");
/// let ada = User { name: "Ada".into(), tags: vec!["admin".into()] };
/// users.insert(1, &ada)?;
/// assert_eq!(users.get(1)?, Some(Json(ada)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned + 'static> Value for Json<T> {
    type Ref<'a> = &'a T;

    fn borrowed(value: &Json<T>) -> &T {
        &value.0
    }

    fn encode(value: &&T, out: &mut Vec<u8>) -> Result<(), Error> {
        serde_json::to_writer(out, *value).map_err(|_| Error::NotARow)
    }

    fn decode(bytes: &[u8]) -> Option<Json<T>> {
        serde_json::from_slice(bytes).ok().map(Json)
    }
}
