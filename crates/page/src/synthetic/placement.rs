//! Decides which generated body starts each request of a page, and writes the bodies.
//!
//! A body starts a request with a reference: an HTML element, a script call or a CSS rule. Some bodies have
//! no room for their references. Then the element or call that loads such a body also starts the requests,
//! as soon as the response has ended. Such requests are called deferred. The text of a reference includes
//! its deferred requests, so references are placed from the last to the first.
//!
//! If the browser injects a script into each document ([`Runtime::Injected`]), the script contains lists of
//! requests. A document or script without room for its references then contains only indices of lists.

use std::collections::BTreeMap;

use super::body::{C, Comment, HTML, SyntheticBody};
use super::markup::{Deferred, Writer};
use super::reference::{Container, InitiatorType, Reference};
use super::{FidelityGaps, Runtime, runtime_script};
use crate::{Page, Phase, UrlRewrite};

/// Maximum nesting of a JavaScript array in which each request contains the requests that follow it.
const MAX_DEPTH: usize = 100;

const DOCTYPE: &str = "<!DOCTYPE html>";
/// HTML that keeps the browser from requesting `/favicon.ico`.
const NO_ICON: &str = "<link rel=icon href=data:,>";
/// Visible content, which a first contentful paint needs. Images are not displayed: images of one pixel would
/// all be in the viewport, and the browser would request them as urgently as scripts.
const TEXT: &str = "<style>img{display:none}</style><p>.</p>";

pub(super) struct Placement {
    /// Generated bodies that make a browser send further requests, keyed by the index of the resource.
    pub(super) bodies: BTreeMap<usize, SyntheticBody>,
    pub(super) gaps: FidelityGaps,
    /// JavaScript arrays of requests that do not fit into a body. The body contains only the arrays' indices.
    pub(super) lists: Vec<String>,
}

/// Generates the response bodies of a page, with references that make a browser send the page's requests.
struct Placer<'a> {
    writer: Writer<'a>,
    /// For each request, the further requests that its response causes; empty once the body is written.
    children: Vec<Vec<usize>>,
    /// For each request, the length of the longest chain of deferred requests that follows it. A deferred
    /// request starts when its initiator's response has ended.
    depth: Vec<usize>,
    /// For each request, the further requests that the body of its response starts.
    held: Vec<Vec<usize>>,
    fits_runtime: Vec<bool>,
    /// For each request for a document, true if the document runs `runtime.js`, a script that sends requests.
    carries_runtime: Vec<bool>,
    /// HTML `<script>` with `runtime.js`, which sends requests; empty if the browser injects the script.
    runtime: String,
    /// True if the browser injects a script into each document, which starts requests that fit into no body.
    injected: bool,
    lists: Vec<String>,
    relocated: Vec<usize>,
    bodies: BTreeMap<usize, SyntheticBody>,
}

impl Placement {
    pub(super) fn of(page: &Page, references: &[Reference], rewrite: UrlRewrite, runtime: Runtime) -> Self {
        let count = references.len();
        let writer = Writer {
            page,
            references,
            rewrite,
            deferred: vec![Deferred::default(); count],
            early: vec![false; count],
        };
        let injected = runtime == Runtime::Injected;
        let mut placer = Placer {
            fits_runtime: vec![false; count],
            carries_runtime: vec![injected; count],
            writer,
            children: vec![Vec::new(); count],
            depth: vec![0; count],
            held: vec![Vec::new(); count],
            runtime: if injected { String::new() } else { format!("<script>{}</script>", runtime_script()) },
            injected,
            lists: Vec::new(),
            relocated: Vec::new(),
            bodies: BTreeMap::new(),
        };
        for (number, one) in references.iter().enumerate() {
            if let Some(parent) = one.parent {
                placer.children[parent].push(number);
            }
        }
        if !injected {
            placer.choose_runtime_carriers();
        }
        for number in (0..count).rev() {
            placer.place(number);
        }
        placer.finish()
    }
}

impl<'a> Placer<'a> {
    fn references(&self) -> &'a [Reference] {
        self.writer.references
    }

    /// Returns the required size in bytes of the body that answers the request with index `number`.
    fn room(&self, number: usize) -> usize {
        self.writer.page.resources[self.references()[number].last].body_bytes.try_into().unwrap_or(usize::MAX)
    }

    /// Chooses the documents that contain `runtime.js`, a script that sends requests. A document needs the
    /// script if HTML elements cannot send one of the document's requests as required, or if the body of a
    /// frame in the document is too small for the HTML that starts the frame's requests.
    fn choose_runtime_carriers(&mut self) {
        let references = self.references();
        for (number, one) in
            references.iter().enumerate().filter(|(_, one)| one.container == Some(Container::Document))
        {
            let least: usize = self.children[number].iter().map(|&child| self.least_bytes(child)).sum();
            let scripts = NO_ICON.len() + "<body>".len() + self.runtime.len();
            self.fits_runtime[number] = self.room(number) >= scripts + least;
            if self.room(number) < least {
                self.give_runtime(one.document);
            }
        }
        for (number, one) in references.iter().enumerate() {
            let simple = matches!(
                one.initiator_type,
                InitiatorType::Image
                    | InitiatorType::Script
                    | InitiatorType::Stylesheet
                    | InitiatorType::Frame
            ) && one.delay_ms == 0
                && one.phase == Phase::Load
                && (one.initiator_type == InitiatorType::Frame || self.children[number].is_empty());
            if !simple {
                self.give_runtime(one.document);
            }
        }
    }

    /// Adds `runtime.js`, a script that starts requests, to a document. If the document is too small, adds
    /// the script to the nearest enclosing document with room, which then also starts `document`'s requests.
    fn give_runtime(&mut self, mut document: usize) {
        while !self.fits_runtime[document] && document > 0 {
            document = self.references()[document].document;
        }
        self.carries_runtime[document] = self.fits_runtime[document];
    }

    /// Returns the minimum size of HTML that starts request `child`, in a document with `runtime.js`.
    fn least_bytes(&self, child: usize) -> usize {
        let element = match self.references()[child].initiator_type {
            InitiatorType::Image | InitiatorType::Script | InitiatorType::Frame => {
                self.writer.element(child, false)
            }
            _ => None,
        };
        element.unwrap_or_else(|| self.writer.template(&[child])).len()
    }

    /// Writes the response body for request `number`. Requests that do not fit are deferred or left out.
    fn place(&mut self, number: usize) {
        let mut children = std::mem::take(&mut self.children[number]);
        let references = self.references();
        children.sort_by_key(|&child| (references[child].at_bytes.unwrap_or(u64::MAX), child));
        let left = match references[number].container {
            Some(Container::Document) => self.place_in_document(number, children),
            Some(Container::Script) => self.place_in_script(number, children),
            Some(Container::Stylesheet) => self.place_in_stylesheet(number, children),
            None => children,
        };
        if matches!(references[number].container, Some(Container::Document | Container::Script)) {
            self.relocated.extend(&left);
        }
        let deepest = left.iter().map(|&child| self.depth[child] + 1).max().unwrap_or(0);
        // No body holds a reference to the root document, so nothing can be deferred to that reference.
        if number > 0 && deepest <= MAX_DEPTH {
            if !left.is_empty() && !self.injected {
                self.give_runtime(references[number].document);
            }
            self.depth[number] = deepest;
            self.writer.deferred[number].on_end = left;
        }
    }

    fn place_in_document(&mut self, number: usize, children: Vec<usize>) -> Vec<usize> {
        let runtime = self.carries_runtime[number];
        let room = self.room(number);
        let head = self.head(number, room);
        let mut free = room - head.len();
        // All references at the end of a document share one element. Separate ones would take kilobytes.
        let together = |placer: &Self, child: usize| runtime && placer.references()[child].at_bytes.is_none();
        let bytes = |placer: &Self, child: usize| {
            if together(placer, child) {
                Some(placer.writer.template_bytes(child))
            } else {
                placer.in_document(child, runtime).map(|text| text.len())
            }
        };
        if children.iter().any(|&child| together(self, child)) {
            free = free.saturating_sub(self.writer.template(&[]).len());
        }
        let total: usize = children.iter().filter_map(|&child| bytes(self, child)).sum();
        if self.injected && total > free {
            return self.list_in_document(number, children, &head, room);
        }
        if runtime && total > free {
            for &child in &children {
                self.writer.early[child] = self.references()[child].delay_ms > 0;
                let simpler = self.writer.element(child, true).is_some();
                self.writer.early[child] &= simpler;
            }
        }
        let (mut items, mut at_end, mut overflow) = (Vec::new(), Vec::new(), Vec::new());
        for child in children {
            let Deferred { on_end, on_use } = &self.writer.deferred[child];
            // Only `runtime.js` starts deferred requests, so a document without it leaves such a child to the
            // enclosing document. The root has none: it keeps the child without its deferred requests.
            let stays = runtime || number == 0 || (on_end.is_empty() && on_use.is_empty());
            let Some(taken) = bytes(self, child).filter(|&bytes| stays && bytes <= free) else {
                overflow.push(child);
                continue;
            };
            free -= taken;
            self.held[number].push(child);
            if together(self, child) {
                at_end.push(child);
            } else if let Some(text) = self.in_document(child, runtime) {
                if !runtime {
                    self.writer.deferred[child] = Deferred::default();
                    self.writer.early[child] = self.references()[child].delay_ms > 0;
                }
                items.push((self.references()[child].at_bytes, text));
            }
        }
        if !at_end.is_empty() {
            items.push((None, self.writer.template(&at_end)));
        }
        self.bodies.insert(self.references()[number].last, lay_out(&head, &items, room, HTML));
        overflow
    }

    /// Writes the body of document `number`, whose `room` bytes do not suffice for references to `children`.
    /// The body contains `head` if it fits, and indices of lists of requests, which are in the injected
    /// script. If no index fits, writes nothing and returns `children`; otherwise returns an empty list.
    fn list_in_document(
        &mut self,
        number: usize,
        children: Vec<usize>,
        head: &str,
        room: usize,
    ) -> Vec<usize> {
        let references = self.references();
        let at_bytes = |list: &Vec<usize>| references[list[0]].at_bytes;
        let mut lists: Vec<Vec<usize>> = Vec::new();
        for child in children {
            match lists.last_mut() {
                Some(last) if at_bytes(last) == references[child].at_bytes => last.push(child),
                _ => lists.push(vec![child]),
            }
        }
        let element = |list: usize| format!("<x-n a={list}>");
        let longest = element(self.lists.len() + lists.len()).len();
        let head = if head.len() + longest <= room { head } else { "" };
        let elements = (room - head.len()) / longest;
        if elements == 0 {
            return lists.concat();
        }
        let mut items: Vec<_> = lists.iter().map(|list| (at_bytes(list), list.clone())).collect();
        if elements < items.len() {
            // Not all indices fit, so join the last lists.
            let rest = lists.split_off(elements - 1).concat();
            self.relocated.extend(rest.iter().filter(|&&child| references[child].at_bytes.is_some()));
            items.truncate(elements - 1);
            items.push((None, rest));
        }
        let items: Vec<_> = items
            .into_iter()
            .map(|(end, list)| {
                self.lists.push(self.writer.list(&list));
                self.held[number].extend(list);
                (end, element(self.lists.len() - 1))
            })
            .collect();
        self.bodies.insert(references[number].last, lay_out(head, &items, room, HTML));
        Vec::new()
    }

    fn in_document(&self, child: usize, runtime: bool) -> Option<String> {
        let element = self.writer.element(child, runtime);
        if runtime { element.or_else(|| Some(self.writer.template(&[child]))) } else { element }
    }

    /// Returns the HTML at the start of document `number`, such as its doctype; empty if `room` is too small.
    fn head(&self, number: usize, room: usize) -> String {
        let icon = if number == 0 { NO_ICON } else { "" };
        if self.carries_runtime[number] {
            // Without `<body>`, a parser would keep `<template>` in the head, but move `<x-r>` to the body.
            // `<x-r>` must follow its template directly.
            let scripts = format!("{}<body>", self.runtime);
            let least = format!("{icon}{scripts}");
            let full = format!("{DOCTYPE}{icon}{TEXT}{scripts}");
            // The doctype and the visible text must not use up room that references need.
            let head = if room > 4 * full.len() { full } else { least };
            return if head.len() <= room { head } else { String::new() };
        }
        let full = format!("{DOCTYPE}{icon}{TEXT}");
        [full.as_str(), icon].into_iter().find(|head| 4 * head.len() <= room).unwrap_or_default().to_owned()
    }

    fn place_in_script(&mut self, number: usize, children: Vec<usize>) -> Vec<usize> {
        if children.is_empty() {
            return children;
        }
        let room = self.room(number);
        let mut text = String::new();
        if !self.carries_runtime[self.references()[number].document] {
            text = format!("if(!window._){{{}}}", runtime_script());
            if text.len() > room {
                return children;
            }
        }
        let total: usize = children.iter().map(|&child| self.writer.call(child).len()).sum();
        let short = format!("$({});", self.lists.len());
        if self.injected && total > room && short.len() <= room {
            self.lists.push(self.writer.list(&children));
            self.held[number].extend(children);
            self.bodies.insert(self.references()[number].last, lay_out(&short, &[], room, C));
            return Vec::new();
        }
        let mut overflow = Vec::new();
        for child in children {
            let call = self.writer.call(child);
            if text.len() + call.len() <= room {
                text += &call;
                self.held[number].push(child);
            } else {
                overflow.push(child);
            }
        }
        self.bodies.insert(self.references()[number].last, lay_out(&text, &[], room, C));
        overflow
    }

    fn place_in_stylesheet(&mut self, number: usize, mut children: Vec<usize>) -> Vec<usize> {
        let references = self.references();
        let room = self.room(number);
        // `@import` rules come first (CSS Cascading and Inheritance section 2).
        children.sort_by_key(|&child| references[child].initiator_type != InitiatorType::Stylesheet);
        let mut text = String::new();
        let (mut on_use, mut left) = (Vec::new(), Vec::new());
        for child in children {
            let import = references[child].initiator_type == InitiatorType::Stylesheet;
            let on_end = &self.writer.deferred[child].on_end;
            let plain = on_end.is_empty()
                && (!import || (references[child].delay_ms == 0 && references[child].phase == Phase::Load));
            let rule = self.writer.rule(child).filter(|_| plain);
            match rule {
                Some(rule) if text.len() + rule.len() <= room => {
                    text += &rule;
                    self.held[number].push(child);
                    if import {
                        on_use.append(&mut self.writer.deferred[child].on_use);
                    } else {
                        on_use.push(child);
                    }
                }
                rule => {
                    if rule.is_some() {
                        self.relocated.push(child);
                    }
                    left.push(child);
                }
            }
        }
        if !text.is_empty() {
            self.bodies.insert(references[number].last, lay_out(&text, &[], room, C));
        }
        self.writer.deferred[number].on_use = on_use;
        left
    }

    /// Returns the bodies, and the resources that a browser will request too late, too early or never.
    fn finish(self) -> Placement {
        let Self { writer, held, bodies, lists, relocated, .. } = self;
        let mut reached = vec![false; writer.references.len()];
        let mut to_visit = vec![0];
        while let Some(number) = to_visit.pop() {
            reached[number] = true;
            let Deferred { on_end, on_use } = &writer.deferred[number];
            let loaded = held[number].iter().filter(|&&child| {
                // A stylesheet loads its `@import`s at once, but its images and fonts when elements use them.
                writer.references[number].container != Some(Container::Stylesheet)
                    || writer.references[child].initiator_type == InitiatorType::Stylesheet
            });
            to_visit.extend(loaded.chain(on_end).chain(on_use));
        }
        let chains = |numbers: &dyn Fn(usize) -> bool| {
            let mut all: Vec<usize> = (0..writer.references.len())
                .filter(|&number| numbers(number))
                .flat_map(|number| writer.references[number].chain.iter().copied())
                .collect();
            all.sort_unstable();
            all
        };
        let gaps = FidelityGaps {
            left_out: chains(&|number| !reached[number]),
            relocated: relocated
                .iter()
                .filter(|&&number| reached[number])
                .map(|&number| writer.references[number].first)
                .collect(),
            early: chains(&|number| reached[number] && writer.early[number]),
        };
        Placement { bodies, gaps, lists }
    }
}

/// Joins `head` and the strings of `items` into a body of `len` bytes, padded with comments. Each string ends
/// at its byte offset, or as near as the other strings permit. Strings without an offset are at the end.
fn lay_out(head: &str, items: &[(Option<u64>, String)], len: usize, comment: Comment) -> SyntheticBody {
    let mut body = SyntheticBody::default();
    body.push(head);
    let mut rest: usize = items.iter().map(|(_, text)| text.len()).sum();
    for (end, text) in items {
        let latest = (len - rest) as u64;
        let start = end.map_or(latest, |end| end.saturating_sub(text.len() as u64).min(latest));
        body.comment(start, comment);
        body.push(text);
        rest -= text.len();
    }
    body.comment(len as u64, comment);
    body
}
