//! Tests that synthetic bodies have the page's sizes and contain each reference exactly once.

use fastopen_page::{Page, Phase, Piece, Policy, Runtime, SyntheticBody, SyntheticPage, UrlRewrite};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns a body as text.
fn written(body: &SyntheticBody) -> String {
    let mut bytes = Vec::new();
    for piece in body.pieces() {
        match piece {
            Piece::Bytes(text) => bytes.extend_from_slice(text),
            Piece::Filler(dots) => bytes.resize(bytes.len() + *dots as usize, b'.'),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn page(resources: &[Value]) -> Page {
    let page: Page = serde_json::from_value(json!({
        "format": "fastopen-page/1", "name": "p", "url": "http://h.test/r0_", "source": "made up",
        "initiators": "declared", "resources": resources,
    }))
    .unwrap();
    page.validate().unwrap();
    page
}

/// Returns a resource whose URL contains its number. `more` contains further keys of the resource.
fn resource(number: usize, kind: &str, initiator: Option<usize>, body_bytes: u64, more: &Value) -> Value {
    let mut resource = json!({
        "url": format!("http://h{}.test/r{number}_", number % 3), "type": kind, "initiator": initiator,
        "body_bytes": body_bytes,
        "mime": if kind == "image" { "image/gif" } else { "application/octet-stream" },
    });
    resource.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    resource
}

fn bodies(synthetic: &SyntheticPage) -> Vec<String> {
    synthetic.responses.iter().map(|resource| written(&resource.body)).collect()
}

/// Returns how often the bodies contain the URL of each resource.
fn named(page: &Page, bodies: &[String]) -> Vec<usize> {
    let all = bodies.concat();
    page.resources.iter().map(|resource| all.matches(&resource.url.normalized_target()).count()).collect()
}

#[test]
fn each_kind_of_reference_stands_at_the_byte_of_the_page() {
    let page = page(&[
        resource(0, "document", None, 9000, &json!({})),
        resource(1, "image", Some(0), 50, &json!({"initiator_at_bytes": 3000})),
        resource(2, "stylesheet", Some(0), 300, &json!({"initiator_at_bytes": 4000, "processing_us": 2000})),
        resource(3, "font", Some(2), 10, &json!({})),
        resource(4, "image", Some(2), 10, &json!({"processing_us": 7000})),
        resource(5, "script", Some(0), 200, &json!({"initiator_at_bytes": 8900})),
        resource(6, "xhr", Some(5), 10, &json!({"method": "POST", "request_body_bytes": 5})),
        resource(7, "image", Some(6), 10, &json!({"phase": "async"})),
        resource(8, "document", Some(0), 100, &json!({})),
        resource(9, "image", Some(8), 43, &json!({})),
    ]);
    let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    let bodies = bodies(&synthetic);
    assert_eq!(synthetic.gaps, fastopen_page::FidelityGaps::default());
    assert!(bodies[0].starts_with("<!DOCTYPE html><link rel=icon href=data:,>"), "{}", &bodies[0][..100]);
    let image = "<img src=\"http://h1.test/r1_\">";
    assert_eq!(bodies[0].find(image).unwrap() + image.len(), 3000);
    let sheet = "<template><img src=\"http://h2.test/r2_\"></template>\
        <x-r a='[[0,2,2,[],0,[[3,1,0],[4,0,7]]]]'></x-r>";
    assert_eq!(bodies[0].find(sheet).unwrap() + sheet.len(), 4000);
    let frame = "<template><img src=\"http://h2.test/r8_\"></template><x-r a='[[0,3]]'></x-r>";
    assert!(bodies[0].ends_with(frame));
    let rules = "@font-face{font-family:r3;src:url(\"http://h0.test/r3_\")}\
        .r4{background:url(\"http://h1.test/r4_\")}/*..";
    assert!(bodies[2].starts_with(rules), "{}", bodies[2]);
    let call = r#"_(["http://h0.test/r6_",4,0,[["http://h1.test/r7_",4,0,[],1]],0,["POST",5]]);/*."#;
    assert!(bodies[5].starts_with(call), "{}", bodies[5]);
    assert!(bodies[8].ends_with("<img src=\"http://h0.test/r9_\">"), "{}", bodies[8]);
    assert!(bodies[9].starts_with("GIF89a"));
}

#[test]
fn what_the_end_of_a_document_starts_is_started_by_its_last_bytes_together() {
    let page = page(&[
        resource(0, "document", None, 900, &json!({})),
        resource(1, "image", Some(0), 50, &json!({})),
        resource(2, "script", Some(0), 50, &json!({"processing_us": 3000})),
        resource(3, "script", Some(0), 50, &json!({"initiator_at_bytes": 300})),
    ]);
    let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::Injected);
    let document = written(&synthetic.responses[0].body);
    let script = "<script async fetchpriority=high src=\"http://h0.test/r3_\"></script>";
    assert_eq!(document.find(script).unwrap() + script.len(), 300);
    let rest = "<template><img src=\"http://h1.test/r1_\"><img src=\"http://h2.test/r2_\"></template>\
        <x-r a='[[0,0],[0,1,3]]'></x-r>";
    assert!(document.ends_with(rest), "{document}");
}

#[test]
fn a_document_needs_room_for_the_script_only_where_the_driver_does_not_inject_it() {
    let page = page(&[
        resource(0, "document", None, 400, &json!({})),
        resource(1, "image", Some(0), 50, &json!({"initiator_at_bytes": 200, "processing_us": 3000})),
    ]);
    let of = |runtime| SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), runtime);
    assert_eq!(of(Runtime::InBodies).gaps.early, [1]);
    let synthetic = of(Runtime::Injected);
    assert_eq!(synthetic.gaps, fastopen_page::FidelityGaps::default());
    let document = written(&synthetic.responses[0].body);
    assert!(!document.contains("<script"), "{document}");
    assert_eq!(document.find("</x-r>").unwrap() + "</x-r>".len(), 200);
}

#[test]
fn the_driver_holds_what_small_bodies_have_no_room_for() {
    let url = |number: usize| format!("http://h.test/{}/{number}", "long".repeat(50));
    let named = |number: usize, kind: &str, initiator, body_bytes, more: Value| {
        let mut resource = resource(number, kind, initiator, body_bytes, &more);
        resource["url"] = url(number).into();
        resource
    };
    let page = page(&[
        resource(0, "document", None, 160, &json!({})),
        named(1, "stylesheet", Some(0), 100, json!({"initiator_at_bytes": 90})),
        named(2, "script", Some(0), 30, json!({"initiator_at_bytes": 140, "processing_us": 2000})),
        named(3, "xhr", Some(2), 10, json!({})),
        named(4, "image", Some(2), 50, json!({"phase": "async"})),
        // A document with room for only one element.
        named(5, "document", Some(0), 12, json!({})),
        named(6, "image", Some(5), 50, json!({"initiator_at_bytes": 1})),
        named(7, "image", Some(5), 50, json!({"initiator_at_bytes": 12})),
    ]);
    let of = |runtime| SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), runtime);
    let synthetic = of(Runtime::Injected);
    assert_eq!((synthetic.gaps.left_out.len(), &synthetic.gaps.early), (0, &Vec::new()));
    assert_eq!(synthetic.gaps.relocated, [6, 7]);
    let bodies = bodies(&synthetic);
    let [style, script, rest] =
        ["<x-n a=2>", "<x-n a=3>", "<x-n a=4>"].map(|text| bodies[0].find(text).unwrap());
    assert_eq!((style + 9, script + 9, rest + 9), (90, 140, 160), "{}", bodies[0]);
    assert!(bodies[2].starts_with("$(1);"), "{}", bodies[2]);
    assert!(bodies[5].contains("<x-n a=0>"), "{}", bodies[5]);
    let script = synthetic.script();
    assert_eq!((1..8).filter(|&number| !script.contains(&url(number))).count(), 0, "{script}");
    assert!(!of(Runtime::InBodies).gaps.left_out.is_empty());
}

#[test]
fn the_origin_of_a_redirect_waits_for_the_processing_that_no_browser_does_there() {
    let page = page(&[
        resource(0, "document", None, 5, &json!({"status": 302, "redirect_to": "/elsewhere"})),
        resource(1, "document", Some(0), 500, &json!({"processing_us": 4000})),
    ]);
    let policy = Policy { processing_scale: 0.5, ..Policy::browser() };
    let synthetic = SyntheticPage::of(&page, &policy, UrlRewrite::default(), Runtime::Injected);
    let processing: Vec<_> = synthetic.responses.iter().map(|response| response.processing_ns).collect();
    assert_eq!(processing, [2_000_000, 0]);
}

#[test]
fn no_body_refers_to_the_target_of_a_redirect() {
    let page = page(&[
        resource(0, "document", None, 5, &json!({"status": 302, "redirect_to": "/elsewhere"})),
        resource(1, "document", Some(0), 500, &json!({})),
        resource(2, "other", Some(1), 0, &json!({"status": 301, "redirect_to": "/x"})),
        resource(3, "image", Some(2), 60, &json!({})),
        resource(4, "image", Some(1), 0, &json!({"status": 302, "redirect_to": "/nowhere"})),
    ]);
    let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    let bodies = bodies(&synthetic);
    assert_eq!(named(&page, &bodies), [0, 0, 1, 0, 1]);
    assert!(
        bodies[1].contains("<img src=\"http://h2.test/r2_\">"),
        "requested as the type of the redirect's target"
    );
    let location = |number: usize| synthetic.responses[number].location.as_deref();
    assert_eq!(location(0), Some("http://h1.test/r1_"));
    assert_eq!(location(2), Some("http://h0.test/r3_"));
    assert_eq!(location(4), None, "a browser would request a resource that the page does not have");
}

#[test]
fn the_browser_itself_sends_a_preflight() {
    let leave = json!({"url": "http://h1.test/r2_", "method": "OPTIONS", "type": "other"});
    let page = page(&[
        resource(0, "document", None, 9000, &json!({})),
        resource(1, "other", Some(0), 0, &leave),
        resource(
            2,
            "xhr",
            Some(1),
            10,
            &json!({"url": "http://h1.test/r2_", "method": "PUT", "request_body_bytes": 3}),
        ),
    ]);
    let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    let document = written(&synthetic.responses[0].body);
    assert!(document.contains(r#"<x-r a='[[0,4,0,[],0,["PUT",3,1]]]'>"#), "{}", &document[8000..]);
    assert_eq!(document.matches("r2_").count(), 1);
    assert!(!synthetic.responses[1].refuses_preflight);
}

#[test]
fn a_get_is_asked_for_without_the_body_that_was_recorded_of_it() {
    for (method, array) in [("GET", "[[0,4]]"), ("DELETE", r#"[[0,4,0,[],0,["DELETE",97]]]"#)] {
        let page = page(&[
            resource(0, "document", None, 9000, &json!({})),
            resource(1, "xhr", Some(0), 10, &json!({"method": method, "request_body_bytes": 97})),
        ]);
        let synthetic =
            SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
        let document = written(&synthetic.responses[0].body);
        assert!(document.contains(&format!("<x-r a='{array}'>")), "{method}");
    }
}

#[test]
fn a_reference_without_room_is_relocated_to_the_parent_and_at_the_root_left_out() {
    let page = page(&[
        resource(0, "document", None, 5000, &json!({})),
        resource(1, "script", Some(0), 9, &json!({})),
        resource(2, "image", Some(1), 43, &json!({})),
    ]);
    let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    let document = written(&synthetic.responses[0].body);
    let relocated = "<template><img src=\"http://h1.test/r1_\"><img src=\"http://h2.test/r2_\"></template>\
        <x-r a='[[0,1,0,[[0,0]]]]'></x-r>";
    assert!(document.contains(relocated), "{}", &document[4000..]);
    assert_eq!(synthetic.gaps.relocated, [2]);
    let tiny = self::page(&[
        resource(0, "document", None, 40, &json!({})),
        resource(1, "image", Some(0), 43, &json!({"processing_us": 5000})),
        resource(2, "image", Some(0), 43, &json!({})),
    ]);
    let synthetic = SyntheticPage::of(&tiny, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    assert_eq!(synthetic.gaps.left_out, [2]);
    assert_eq!(synthetic.gaps.early, [1], "no room for the script that sets timers");
}

#[test]
fn a_url_that_occurs_twice_is_requested_twice() {
    let same = json!({"url": "http://h1.test/r1_"});
    let page = page(&[
        resource(0, "document", None, 9000, &json!({})),
        resource(1, "image", Some(0), 43, &same),
        resource(2, "image", Some(0), 43, &same),
    ]);
    let document = written(
        &SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies).responses[0]
            .body,
    );
    let image = "<img src=\"http://h1.test/r1_\">";
    let both = format!("<template>{image}{image}</template><x-r a='[[0,0],[0,4]]'></x-r>");
    assert!(document.ends_with(&both), "the second by fetch, past all caches");
}

#[test]
fn a_template_and_its_element_stand_side_by_side_in_small_documents_too() {
    let page = page(&[
        resource(0, "document", None, 3000, &json!({})),
        resource(1, "image", Some(0), 43, &json!({"processing_us": 5000})),
    ]);
    let document = written(
        &SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies).responses[0]
            .body,
    );
    assert!(
        document.find("<body>").unwrap() < document.find("<template>").unwrap(),
        "else it is in the head"
    );
}

#[test]
fn bodies_refer_to_the_loaded_phases_only() {
    let page = page(&[
        resource(0, "document", None, 9000, &json!({})),
        resource(1, "image", Some(0), 43, &json!({"phase": "after"})),
    ]);
    let document = |policy: &Policy| {
        written(&SyntheticPage::of(&page, policy, UrlRewrite::default(), Runtime::InBodies).responses[0].body)
    };
    assert!(!document(&Policy::browser()).contains("r1_"));
    let all = Policy { phases: vec![Phase::Load, Phase::Async, Phase::After], ..Policy::browser() };
    assert!(document(&all).contains("<x-r a='[[0,0,0,[],2]]'>"));
}

#[test]
fn a_content_type_that_a_browser_would_not_accept_is_replaced() {
    let mime = |kind: &str, mime: &str| {
        let document = resource(0, "document", None, 900, &json!({}));
        let page = page(&[document, resource(1, kind, Some(0), 9, &json!({"mime": mime}))]);
        SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), Runtime::InBodies).responses[1]
            .mime
            .clone()
    };
    assert_eq!(mime("document", "application/octet-stream"), "text/html");
    assert_eq!(mime("document", "text/html; charset=UTF-16"), "text/html");
    assert_eq!(mime("document", "Text/HTML; charset=x"), "Text/HTML; charset=x");
    assert_eq!(mime("stylesheet", "text/plain"), "text/css");
    assert_eq!(mime("script", "image/gif"), "text/javascript");
    assert_eq!(mime("script", "application/x-javascript"), "application/x-javascript");
    assert_eq!(mime("xhr", "application/json"), "application/json");
}

#[test]
fn references_without_room_in_a_frame_are_deferred_to_the_enclosing_document() {
    let mut all = vec![
        resource(0, "document", None, 100_000, &json!({})),
        resource(1, "document", Some(0), 1700, &json!({})),
        resource(2, "document", Some(1), 0, &json!({})),
    ];
    all.extend((3..30).map(|number| resource(number, "xhr", Some(2), 0, &json!({}))));
    let synthetic =
        SyntheticPage::of(&page(&all), &Policy::browser(), UrlRewrite::default(), Runtime::InBodies);
    assert_eq!(synthetic.gaps.left_out, Vec::<usize>::new());
    assert!(written(&synthetic.responses[0].body).contains("r29_"));
}

fn any_resource(number: usize) -> impl Strategy<Value = Value> {
    let kinds = ["document", "stylesheet", "script", "image", "font", "xhr", "media", "other"];
    let size = prop_oneof![0..120_u64, 0..4000_u64, 2000..200_000_u64];
    let more =
        (proptest::sample::select(kinds.to_vec()), 0..number, size, 0..9000_u64, 0..12_u8, 0.0..1.2_f64);
    more.prop_map(move |(kind, initiator, size, processing, oddity, at)| {
        let mut more = json!({"processing_us": if processing < 4000 { 0 } else { processing }, "at": at});
        let odd = match oddity {
            0 => json!({"status": 302, "redirect_to": "/r"}),
            1 => json!({"phase": "async"}),
            2 => json!({"method": "POST", "request_body_bytes": 7}),
            3 => json!({"status": 404}),
            _ => json!({}),
        };
        more.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
        resource(number, kind, Some(initiator), size, &more)
    })
}

fn any_page() -> impl Strategy<Value = Page> {
    (1..40_usize, 0..60_000_u64).prop_flat_map(|(count, size)| {
        let root = Just(resource(0, "document", None, size, &json!({"mime": "text/html"})));
        let others: Vec<_> = (1..count).map(|number| any_resource(number).boxed()).collect();
        (root, others).prop_map(|(root, others)| {
            let mut all = vec![root];
            all.extend(others);
            for number in 1..all.len() {
                let at = all[number].as_object_mut().unwrap().remove("at").unwrap().as_f64().unwrap();
                let initiator = all[number]["initiator"].as_u64().unwrap() as usize;
                let size = all[initiator]["body_bytes"].as_u64().unwrap();
                if at <= 1.0 {
                    all[number]["initiator_at_bytes"] = json!((size as f64 * at) as u64);
                }
            }
            page(&all)
        })
    })
}

/// Returns true if every tag and comment is closed, and only dots and spaces are outside of tags.
fn is_well_formed_html(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        if !rest[..at].trim_matches(['.', ' ']).is_empty() {
            return false;
        }
        let end = if rest[at..].starts_with("<!--") {
            rest[at..].find("-->").map(|end| end + 3)
        } else if rest[at..].starts_with("<script>") {
            rest[at..].find("</script>").map(|end| end + 9)
        } else if rest[at..].starts_with("<style>") {
            rest[at..].find("</style>").map(|end| end + 8)
        } else {
            rest[at..].find('>').map(|end| end + 1)
        };
        let Some(end) = end else { return false };
        rest = &rest[at + end..];
    }
    rest.trim().is_empty()
}

proptest! {
    #[test]
    fn every_body_has_its_size_and_every_reference_stands_once(page in any_page(), injected: bool) {
        let runtime = if injected { Runtime::Injected } else { Runtime::InBodies };
        let synthetic = SyntheticPage::of(&page, &Policy::browser(), UrlRewrite::default(), runtime);
        let bodies = bodies(&synthetic);
        let left_out = &synthetic.gaps.left_out;
        for (number, (body, resource)) in bodies.iter().zip(&page.resources).enumerate() {
            prop_assert_eq!(synthetic.responses[number].body.len(), resource.body_bytes);
            if resource.kind == fastopen_page::ResourceType::Document {
                prop_assert!(is_well_formed_html(body), "{}", body);
            }
        }
        let redirected = |number: usize| page.resources[number].initiator.is_some_and(|initiator| {
            page.resources[initiator].redirect_to.is_some()
                && (initiator + 1..number).all(|other| page.resources[other].initiator != Some(initiator))
        });
        let held = if injected { vec![synthetic.script()] } else { Vec::new() };
        for (number, count) in named(&page, &[bodies, held].concat()).into_iter().enumerate().skip(1) {
            if left_out.contains(&number) || redirected(number) {
                prop_assert!(count <= 1, "{} of {}", count, number);
            } else {
                prop_assert_eq!(count, 1, "{} is named {} times", number, count);
            }
        }
    }

    #[test]
    fn a_page_with_room_leaves_nothing_out(page in any_page()) {
        let mut page = page;
        page.resources[0].body_bytes = 100_000;
        let policy = Policy::browser();
        let synthetic = SyntheticPage::of(&page, &policy, UrlRewrite::default(), Runtime::InBodies);
        prop_assert_eq!(synthetic.gaps.left_out, Vec::<usize>::new());
    }
}
