//! Questions about parts of large data types, which Quoit answers without reading the rest.

use super::Client;
use super::data_type::type_name;
use crate::data_type::{DataTypeValue, FieldKind};
use crate::error::Error;
use crate::location::Location;
use crate::pool::Repeat;
use bytes::Bytes;
use quoit_wire::messages::{DtQueryReq, DtQueryResp, MapField};

/// Some elements of a set or fields of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataTypePage {
    /// A set or a map with nothing else in it.
    pub value: DataTypeValue,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<PageCursor>,
}

/// The end of a page, from which another one begins. It stays good while elements come and go: what is there
/// all the time comes once, what is added or removed meanwhile may come or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor(Bytes);

impl Client {
    /// The number of elements of a set, or of fields of a map; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. Riak has no such request and refuses it.
    pub async fn data_type_size(&self, location: &Location) -> Result<Option<u64>, Error> {
        let answer = self.ask(location, |_| {}).await?;
        Ok(answer.size)
    }

    /// Whether an element is in a set; of a set that is not there, nothing is.
    ///
    /// # Errors
    ///
    /// As [`data_type_size`](Self::data_type_size).
    pub async fn set_contains(
        &self,
        location: &Location,
        element: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let element = Bytes::copy_from_slice(element.as_ref());
        let ask = |request: &mut DtQueryReq| request.element = Some(element);
        let answer = self.ask(location, ask).await?;
        Ok(answer.contains == Some(true))
    }

    /// One field of a map, as a map with that field alone; empty if the map has no such field, `None` if
    /// there is no map.
    ///
    /// # Errors
    ///
    /// As [`data_type_size`](Self::data_type_size).
    pub async fn map_field(
        &self,
        location: &Location,
        kind: FieldKind,
        name: impl AsRef<[u8]>,
    ) -> Result<Option<DataTypeValue>, Error> {
        let name = Bytes::copy_from_slice(name.as_ref());
        let ask = |request: &mut DtQueryReq| {
            request.field = Some(MapField { name, kind: kind as i32 });
        };
        let answer = self.ask(location, ask).await?;
        let data_type = answer.kind();
        Ok(answer.value.map(|value| DataTypeValue::of(data_type, value)))
    }

    /// About `count` elements of a set or fields of a map, from the beginning or from where the former page
    /// ended; `None` if there is none.
    ///
    /// ```no_run
    /// # async fn example(client: quoit_client::Client) -> Result<(), quoit_client::Error> {
    /// let guests = quoit_client::Bucket::typed("sets", "guests").key("ever");
    /// let mut cursor = None;
    /// while let Some(page) = client.data_type_page(&guests, 1_000, cursor.as_ref()).await? {
    ///     for guest in page.value.as_set().into_iter().flatten() {
    ///         println!("{}", guest.escape_ascii());
    ///     }
    ///     cursor = page.next;
    ///     if cursor.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`data_type_size`](Self::data_type_size).
    pub async fn data_type_page(
        &self,
        location: &Location,
        count: u32,
        after: Option<&PageCursor>,
    ) -> Result<Option<DataTypePage>, Error> {
        let cursor = after.map(|cursor| cursor.0.clone());
        let ask = |request: &mut DtQueryReq| {
            request.page_size = Some(count);
            request.cursor = cursor;
        };
        let answer = self.ask(location, ask).await?;
        let data_type = answer.kind();
        let next = answer.cursor.map(PageCursor);
        Ok(answer
            .value
            .map(|value| DataTypePage { value: DataTypeValue::of(data_type, value), next }))
    }

    async fn ask(
        &self,
        location: &Location,
        ask: impl FnOnce(&mut DtQueryReq),
    ) -> Result<DtQueryResp, Error> {
        let mut request = DtQueryReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            bucket_type: type_name(&location.bucket),
            ..DtQueryReq::default()
        };
        ask(&mut request);
        self.pool.call(&request, Repeat::Safe, None, Some(location.about())).await
    }
}
