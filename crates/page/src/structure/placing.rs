//! Which body holds which reference, and the bodies that come of it.
//!
//! From the last resource to the first, so that each reference is whole when room for it is looked for.

use std::collections::BTreeMap;

use super::asking::{Asked, Holder, Via};
use super::body::{Body, C, Comment, HTML};
use super::reference::{Hanging, Writer};
use super::{Shortcomings, runtime};
use crate::{Page, Spelling};

/// References within references within references: more than any page has.
const DEPTH: usize = 100;

const DOCTYPE: &str = "<!DOCTYPE html>";
/// Browsers ask for `/favicon.ico` by themselves, but for this.
const NO_ICON: &str = "<link rel=icon href=data:,>";
/// Something to see.
const TEXT: &str = "<p>.</p>";

pub(super) struct Placed {
    /// The bodies of those resources that refer to others.
    pub(super) bodies: BTreeMap<usize, Body>,
    pub(super) shortcomings: Shortcomings,
}

struct Placing<'a> {
    writer: Writer<'a>,
    /// By number: what its answer makes the browser ask for, as far as that was seen to.
    children: Vec<Vec<usize>>,
    /// By number: how many references stand within this one's.
    depth: Vec<usize>,
    /// By number: what its body makes the browser ask for.
    held: Vec<Vec<usize>>,
    /// Documents that have room for the scripts, and those that carry them.
    has_room: Vec<bool>,
    scripted: Vec<bool>,
    runtime: String,
    moved: Vec<usize>,
    bodies: BTreeMap<usize, Body>,
}

impl Placed {
    pub(super) fn of(page: &Page, asked: &[Asked], spelling: Spelling) -> Self {
        let count = asked.len();
        let writer = Writer {
            page,
            asked,
            spelling,
            hanging: vec![Hanging::default(); count],
            hurried: vec![false; count],
        };
        let mut placing = Placing {
            has_room: vec![false; count],
            scripted: vec![false; count],
            writer,
            children: vec![Vec::new(); count],
            depth: vec![0; count],
            held: vec![Vec::new(); count],
            runtime: runtime(),
            moved: Vec::new(),
            bodies: BTreeMap::new(),
        };
        for (number, one) in asked.iter().enumerate() {
            if let Some(parent) = one.parent {
                placing.children[parent].push(number);
            }
        }
        placing.choose_scripted();
        for number in (0..count).rev() {
            placing.place(number);
        }
        placing.finish()
    }
}

impl<'a> Placing<'a> {
    fn asked(&self) -> &'a [Asked] {
        self.writer.asked
    }

    /// Bytes of the body that a resource ends with.
    fn room(&self, number: usize) -> usize {
        self.writer.page.resources[self.asked()[number].last].body_bytes.try_into().unwrap_or(usize::MAX)
    }

    /// Gives the scripts to the documents that need them, and for those that have no room for them to what they stand in.
    fn choose_scripted(&mut self) {
        let asked = self.asked();
        for (number, one) in asked.iter().enumerate().filter(|(_, one)| one.holder == Some(Holder::Document))
        {
            let least: usize = self.children[number].iter().map(|&child| self.least_bytes(child)).sum();
            let scripts = NO_ICON.len() + "<script></script><body>".len() + self.runtime.len();
            self.has_room[number] = self.room(number) >= scripts + least;
            if self.room(number) < least {
                self.give_scripts(one.frame);
            }
        }
        for (number, one) in asked.iter().enumerate() {
            let simple = matches!(one.via, Via::Image | Via::Script | Via::Stylesheet | Via::Frame)
                && one.delay_ms == 0
                && one.phase == crate::Phase::Load
                && (one.via == Via::Frame || self.children[number].is_empty());
            if !simple {
                self.give_scripts(one.frame);
            }
        }
    }

    /// Gives the scripts to a document or, where it has no room for them and all that it refers to itself, to the next outer one
    /// that has: what does not fit into a document is the outer one's to ask for.
    fn give_scripts(&mut self, mut document: usize) {
        while !self.has_room[document] && document > 0 {
            document = self.asked()[document].frame;
        }
        self.scripted[document] = self.has_room[document];
    }

    /// What a reference takes at least in a document with scripts, before anything hangs on it.
    fn least_bytes(&self, child: usize) -> usize {
        let element = match self.asked()[child].via {
            Via::Image | Via::Script | Via::Frame => self.writer.element(child, false),
            _ => None,
        };
        element.unwrap_or_else(|| self.writer.template(child)).len()
    }

    /// Writes the body of what `number` asks for; what that cannot hold hangs on its reference.
    fn place(&mut self, number: usize) {
        let mut children = std::mem::take(&mut self.children[number]);
        let asked = self.asked();
        children.sort_by_key(|&child| (asked[child].at_bytes.unwrap_or(u64::MAX), child));
        let left = match asked[number].holder {
            Some(Holder::Document) => self.place_in_document(number, children),
            Some(Holder::Script) => self.place_in_script(number, children),
            Some(Holder::Stylesheet) => self.place_in_stylesheet(number, children),
            None => children,
        };
        let deepest = left.iter().map(|&child| self.depth[child] + 1).max().unwrap_or(0);
        // The root has no reference that anything could hang on.
        if number > 0 && deepest <= DEPTH {
            if !left.is_empty() {
                self.give_scripts(asked[number].frame);
            }
            self.depth[number] = deepest;
            self.writer.hanging[number].after = left;
        }
    }

    fn place_in_document(&mut self, number: usize, children: Vec<usize>) -> Vec<usize> {
        let scripts = self.scripted[number];
        let room = self.room(number);
        let head = self.head(number, room);
        let mut left_room = room - head.len();
        let total = |placing: &Self| -> usize {
            children
                .iter()
                .map(|&child| placing.in_document(child, scripts).map_or(0, |text| text.len()))
                .sum()
        };
        if scripts && total(self) > left_room {
            for &child in &children {
                self.writer.hurried[child] = self.asked()[child].delay_ms > 0;
                let simpler = self.writer.element(child, true).is_some();
                self.writer.hurried[child] &= simpler;
            }
        }
        let (mut items, mut overflow) = (Vec::new(), Vec::new());
        for child in children {
            let Hanging { after, used } = &self.writer.hanging[child];
            // Without scripts nothing here could act on what hangs on it; the root has nowhere else to send it.
            let stays = scripts || number == 0 || (after.is_empty() && used.is_empty());
            match self.in_document(child, scripts).filter(|text| stays && text.len() <= left_room) {
                Some(text) => {
                    left_room -= text.len();
                    if !scripts {
                        self.writer.hanging[child] = Hanging::default();
                        self.writer.hurried[child] = self.asked()[child].delay_ms > 0;
                    }
                    items.push((self.asked()[child].at_bytes, text));
                    self.held[number].push(child);
                }
                None => overflow.push(child),
            }
        }
        self.bodies.insert(self.asked()[number].last, lay_out(&head, &items, room, HTML));
        self.moved.extend(&overflow);
        overflow
    }

    fn in_document(&self, child: usize, scripts: bool) -> Option<String> {
        let element = self.writer.element(child, scripts);
        if scripts { element.or_else(|| Some(self.writer.template(child))) } else { element }
    }

    /// What a document begins with, as much of it as there is room for.
    fn head(&self, number: usize, room: usize) -> String {
        let icon = if number == 0 { NO_ICON } else { "" };
        if self.scripted[number] {
            // Templates may stand in a head, and what acts on them not: both are to be in the body.
            let scripts = format!("<script>{}</script><body>", self.runtime);
            let least = format!("{icon}{scripts}");
            let whole = format!("{DOCTYPE}{icon}{TEXT}{scripts}");
            // What is there beside must not cost a reference its place.
            return if room > 4 * whole.len() { whole } else { least };
        }
        let whole = format!("{DOCTYPE}{icon}{TEXT}");
        [whole.as_str(), icon].into_iter().find(|head| 4 * head.len() <= room).unwrap_or_default().to_owned()
    }

    fn place_in_script(&mut self, number: usize, children: Vec<usize>) -> Vec<usize> {
        if children.is_empty() {
            return children;
        }
        let room = self.room(number);
        let mut text = String::new();
        if !self.scripted[self.asked()[number].frame] {
            text = format!("if(!window._){{{}}}", self.runtime);
            if text.len() > room {
                self.moved.extend(&children);
                return children;
            }
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
        self.bodies.insert(self.asked()[number].last, lay_out(&text, &[], room, C));
        self.moved.extend(&overflow);
        overflow
    }

    fn place_in_stylesheet(&mut self, number: usize, mut children: Vec<usize>) -> Vec<usize> {
        let asked = self.asked();
        let room = self.room(number);
        // Imports have to come first (CSS Cascading and Inheritance section 2).
        children.sort_by_key(|&child| asked[child].via != Via::Stylesheet);
        let mut text = String::new();
        let (mut used, mut left) = (Vec::new(), Vec::new());
        for child in children {
            let import = asked[child].via == Via::Stylesheet;
            let hangs = &self.writer.hanging[child];
            let plain = hangs.after.is_empty()
                && (!import || (asked[child].delay_ms == 0 && asked[child].phase == crate::Phase::Load));
            let rule = self.writer.rule(child).filter(|_| plain);
            match rule {
                Some(rule) if text.len() + rule.len() <= room => {
                    text += &rule;
                    self.held[number].push(child);
                    if import {
                        used.append(&mut self.writer.hanging[child].used);
                    } else {
                        used.push(child);
                    }
                }
                rule => {
                    if rule.is_some() {
                        self.moved.push(child);
                    }
                    left.push(child);
                }
            }
        }
        if !text.is_empty() {
            self.bodies.insert(asked[number].last, lay_out(&text, &[], room, C));
        }
        self.writer.hanging[number].used = used;
        left
    }

    /// Follows all references from the root and says what they do not reach.
    fn finish(self) -> Placed {
        let Self { writer, held, bodies, moved, .. } = self;
        let mut reached = vec![false; writer.asked.len()];
        let mut ahead = vec![0];
        while let Some(number) = ahead.pop() {
            reached[number] = true;
            let Hanging { after, used } = &writer.hanging[number];
            let here = held[number].iter().filter(|&&child| {
                // What a stylesheet names but for imports is asked for by whoever uses it.
                writer.asked[number].holder != Some(Holder::Stylesheet)
                    || writer.asked[child].via == Via::Stylesheet
            });
            ahead.extend(here.chain(after).chain(used));
        }
        let chains = |numbers: &dyn Fn(usize) -> bool| {
            let mut all: Vec<usize> = (0..writer.asked.len())
                .filter(|&number| numbers(number))
                .flat_map(|number| writer.asked[number].chain.iter().copied())
                .collect();
            all.sort_unstable();
            all
        };
        let shortcomings = Shortcomings {
            left_out: chains(&|number| !reached[number]),
            moved: moved
                .iter()
                .filter(|&&number| reached[number])
                .map(|&number| writer.asked[number].first)
                .collect(),
            hurried: chains(&|number| reached[number] && writer.hurried[number]),
        };
        Placed { bodies, shortcomings }
    }
}

/// A body of `len` bytes that begins with `head`; each item ends as near to its place as those after it leave room for, those
/// without a place at the end.
fn lay_out(head: &str, items: &[(Option<u64>, String)], len: usize, comment: Comment) -> Body {
    let mut body = Body::default();
    body.text(head);
    let mut behind: usize = items.iter().map(|(_, text)| text.len()).sum();
    for (end, text) in items {
        let latest = (len - behind) as u64;
        let start = end.map_or(latest, |end| end.saturating_sub(text.len() as u64).min(latest));
        body.comment(start, comment);
        body.text(text);
        behind -= text.len();
    }
    body.comment(len as u64, comment);
    body
}
