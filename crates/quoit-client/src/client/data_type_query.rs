//! Queries of parts of large data types, which Quoit answers without reading the rest.

use super::Client;
use super::data_type::type_name;
use crate::data_type::{DataTypeValue, FieldKind};
use crate::error::Error;
use crate::location::Location;
use crate::pool::Repeatable;
use bytes::Bytes;
use quoit_wire::messages::{DtQueryReq, DtQueryResp, MapField};

/// The path to a set or map inside a map: the fields that contain it, outermost first.
///
/// ```
/// # use quoit_client::FieldPath;
/// let tags = FieldPath::new().map("profile").set("tags");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<MapField>);

impl FieldPath {
    /// The empty path: the record's own set or map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field that is a map.
    #[must_use]
    pub fn map(self, name: impl AsRef<[u8]>) -> Self {
        self.step(FieldKind::Map, name.as_ref())
    }

    /// Appends a field that is a set. A path ends at a set.
    #[must_use]
    pub fn set(self, name: impl AsRef<[u8]>) -> Self {
        self.step(FieldKind::Set, name.as_ref())
    }

    fn step(mut self, kind: FieldKind, name: &[u8]) -> Self {
        self.0.push(MapField { name: Bytes::copy_from_slice(name), kind: kind as i32 });
        self
    }
}

/// Queries of a set or map in a field of a map: see [`Client::in_field`].
#[derive(Debug, Clone)]
pub struct FieldQueries<'c> {
    client: &'c Client,
    location: Location,
    path: FieldPath,
}

/// A part of the elements of a set or fields of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataTypePage {
    /// A set or map that holds only the elements or fields of this page.
    pub value: DataTypeValue,
    /// Position of the next page; `None` after the last one.
    pub next: Option<PageCursor>,
}

/// The end of a page, from which the next one begins. A cursor stays valid while elements come and go. A
/// scan returns each element that exists during the whole scan once. It may or may not return an element
/// that was added or removed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor(Bytes);

impl Client {
    /// The number of elements of a set, or of fields of a map; `None` if there is no such record.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. Riak has no such request and refuses it.
    pub async fn data_type_size(&self, location: &Location) -> Result<Option<u64>, Error> {
        self.in_field(location, FieldPath::new()).size().await
    }

    /// True if an element is in a set. False if the set does not exist.
    ///
    /// # Errors
    ///
    /// As [`data_type_size`](Self::data_type_size).
    pub async fn set_contains(
        &self,
        location: &Location,
        element: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.in_field(location, FieldPath::new()).contains(element).await
    }

    /// One field of a map, as a map with only that field. The map is empty if it has no such field; `None`
    /// if there is no map.
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
        self.in_field(location, FieldPath::new()).field(kind, name).await
    }

    /// About `count` elements of a set or fields of a map, from the beginning or from the end of the
    /// previous page; `None` if there is no such record.
    ///
    /// ```no_run
    /// # async fn example(client: quoit_client::Client) -> Result<(), quoit_client::Error> {
    /// let guests = quoit_client::Bucket::new("guests").typed("sets").key("ever");
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
        self.in_field(location, FieldPath::new()).page(count, after).await
    }

    /// Queries a set or map in a field of a map, however large it is, without reading the rest.
    ///
    /// ```no_run
    /// # async fn example(client: quoit_client::Client) -> Result<(), quoit_client::Error> {
    /// use quoit_client::{Bucket, FieldPath};
    /// let ann = Bucket::new("people").typed("maps").key("ann");
    /// let tags = client.in_field(&ann, FieldPath::new().map("profile").set("tags"));
    /// println!("{:?} tags, rust {} one of them", tags.size().await?, tags.contains("rust").await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_field(&self, location: &Location, path: FieldPath) -> FieldQueries<'_> {
        FieldQueries { client: self, location: location.clone(), path }
    }
}

impl FieldQueries<'_> {
    /// The number of elements or fields; `None` if there is no such record or field.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn size(&self) -> Result<Option<u64>, Error> {
        let answer = self.ask(|_| {}).await?;
        Ok(answer.size)
    }

    /// True if an element is in the set. False if the set does not exist.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn contains(&self, element: impl AsRef<[u8]>) -> Result<bool, Error> {
        let element = Bytes::copy_from_slice(element.as_ref());
        let answer = self.ask(|request| request.element = Some(element)).await?;
        Ok(answer.contains == Some(true))
    }

    /// One field of the map, as a map with only that field. The map is empty if it has no such field;
    /// `None` if there is no map.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn field(
        &self,
        kind: FieldKind,
        name: impl AsRef<[u8]>,
    ) -> Result<Option<DataTypeValue>, Error> {
        let name = Bytes::copy_from_slice(name.as_ref());
        let field = MapField { name, kind: kind as i32 };
        let answer = self.ask(|request| request.field = Some(field)).await?;
        let data_type = answer.kind();
        Ok(answer.value.map(|value| DataTypeValue::of(data_type, value)))
    }

    /// A page of about `count` elements or fields, as [`Client::data_type_page`] returns for a record;
    /// `None` if there is no such record or field.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn page(
        &self,
        count: u32,
        after: Option<&PageCursor>,
    ) -> Result<Option<DataTypePage>, Error> {
        let cursor = after.map(|cursor| cursor.0.clone());
        let ask = |request: &mut DtQueryReq| {
            request.page_size = Some(count);
            request.cursor = cursor;
        };
        let answer = self.ask(ask).await?;
        let data_type = answer.kind();
        let next = answer.cursor.map(PageCursor);
        let value = answer.value.map(|value| DataTypeValue::of(data_type, value));
        Ok(value.map(|value| DataTypePage { value, next }))
    }

    async fn ask(&self, ask: impl FnOnce(&mut DtQueryReq)) -> Result<DtQueryResp, Error> {
        let Location { bucket, key } = &self.location;
        let mut request = DtQueryReq {
            bucket: bucket.name.clone(),
            key: key.clone(),
            bucket_type: type_name(bucket),
            path: self.path.0.clone(),
            ..DtQueryReq::default()
        };
        ask(&mut request);
        let location_ref = Some(self.location.location_ref());
        self.client.pool.call(&request, Repeatable::Safe, None, location_ref).await
    }
}
