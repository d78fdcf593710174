//! Helpers that build short pages for tests.

use fastopen_page::{Format, Initiators, Page, PageUrl, Resource, ResourceType};

/// Returns a resource with 1000 body bytes, which the client discovers at the end of the root document.
pub(crate) fn resource(url: &str, kind: ResourceType) -> Resource {
    Resource {
        url: PageUrl::parse(url).unwrap(),
        method: "GET".to_owned(),
        status: 200,
        kind,
        mime: "text/plain".to_owned(),
        request_header_bytes: 400,
        request_body_bytes: 0,
        response_header_bytes: 300,
        body_bytes: 1000,
        server_think_us: 0,
        server_send_us: 0,
        initiator: Some(0),
        initiator_at_bytes: None,
        processing_us: 0,
        phase: fastopen_page::Phase::Load,
        redirect_to: None,
        fresh_s: None,
        validator: false,
        body_offset: None,
        http: None,
        alternatives: Vec::new(),
        pushed: false,
        head_offset: None,
    }
}

pub(crate) fn image(url: &str) -> Resource {
    resource(url, ResourceType::Image)
}

/// Returns a root document of 10 000 bytes.
pub(crate) fn root(url: &str) -> Resource {
    Resource { body_bytes: 10_000, initiator: None, ..resource(url, ResourceType::Document) }
}

/// Returns a page with this root document and these other resources.
pub(crate) fn page(root: Resource, rest: impl IntoIterator<Item = Resource>) -> Page {
    let page = Page {
        format: Format::One,
        name: "test".to_owned(),
        url: root.url.clone(),
        source: "made up".to_owned(),
        initiators: Initiators::Declared,
        notes: Vec::new(),
        load_event_processing_us: 0,
        resources: std::iter::once(root).chain(rest).collect(),
        explanations: Vec::new(),
    };
    page.validate().unwrap();
    page
}

/// Returns a page of `a.test`: a root document, at whose end the client discovers this number of images.
pub(crate) fn gallery(images: usize) -> Page {
    page(root("http://a.test/"), (1..=images).map(|number| image(&format!("http://a.test/{number}"))))
}
