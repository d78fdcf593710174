//! Writes the page's response bodies to files, so that an external server can serve them. A file's path is
//! `HOST/PATH`, from the URL without its query. `index.html` is added to a path that ends in `/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fastopen_page::Resource;
use fastopen_replay::origins::ServedResource;

use crate::contract::Job;

const NAME_BYTES: usize = 255;
const INDEX: &str = "index.html";
const OK: u16 = 200;

/// Writes the bodies of the external server's hosts to a new folder. `resources` is in the page's order.
pub(super) fn write(folder: &Path, job: &Job, resources: &[ServedResource]) -> io::Result<()> {
    fs::create_dir(folder)?;
    let served = |number: &usize| job.origins.is_served(job.page.resources[*number].url.host());
    for (path, number) in paths(&job.page.resources).into_iter().filter(|(_, number)| served(number)) {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut file = File::create(path)?;
        resources[number].body.clone().write_to(&mut file)?;
    }
    Ok(())
}

/// Maps each file's path to the index of the resource with its body. Omits paths that are invalid, that are
/// folders of other files, or whose resources differ in size or are not all GETs with status 200.
fn paths(resources: &[Resource]) -> BTreeMap<PathBuf, usize> {
    let mut numbers: BTreeMap<PathBuf, Option<usize>> = BTreeMap::new();
    for (number, resource) in resources.iter().enumerate() {
        let Some(path) = path_of(resource) else { continue };
        let gets_file = resource.method == "GET" && resource.status == OK;
        let first = numbers.entry(path).or_insert(Some(number));
        if !gets_file || first.is_some_and(|first| resources[first].body_bytes != resource.body_bytes) {
            *first = None;
        }
    }
    let folders: BTreeSet<PathBuf> =
        numbers.keys().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
    let files = numbers.into_iter().filter(|(path, _)| !folders.contains(path));
    files.filter_map(|(path, number)| Some((path, number?))).collect()
}

fn path_of(resource: &Resource) -> Option<PathBuf> {
    let target = resource.url.target();
    let path = decoded(target.split('?').next().unwrap_or_default()).filter(|path| path.starts_with('/'))?;
    let index = if path.ends_with('/') { INDEX } else { "" };
    let file = format!("{}{path}{index}", resource.url.host());
    let fits = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= NAME_BYTES;
    file.split('/').all(fits).then(|| file.into())
}

/// Decodes the percent-encoded bytes of a path. Returns None if the result is not UTF-8 or contains a NUL.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).filter(|_| *first == b'%');
        let value = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(url: &str, body_bytes: u64) -> Resource {
        let json = json!({"url": url, "type": "image", "body_bytes": body_bytes, "initiator": null});
        serde_json::from_value(json).expect("it is a resource")
    }

    fn found(urls: &[(&str, u64)]) -> Vec<(String, usize)> {
        let resources: Vec<_> = urls.iter().map(|(url, body_bytes)| resource(url, *body_bytes)).collect();
        let text = |(path, number): (PathBuf, usize)| (path.to_str().expect("text").to_owned(), number);
        paths(&resources).into_iter().map(text).collect()
    }

    #[test]
    fn a_url_without_its_query_is_a_path_below_its_host() {
        let urls = [("http://a.test/", 1), ("https://b.test/x%20y/z.js?v=2", 2), ("http://a.test/d/", 3)];
        let paths = [("a.test/d/index.html", 2), ("a.test/index.html", 0), ("b.test/x y/z.js", 1)];
        assert_eq!(found(&urls), paths.map(|(path, number)| (path.to_owned(), number)));
    }

    #[test]
    fn what_no_file_can_hold_is_left_to_the_origins_behind_the_server() {
        assert_eq!(found(&[("http://a.test/x?1", 1), ("http://a.test/x?2", 2)]), []);
        assert_eq!(found(&[("http://a.test/x/..%2f..%2fetc", 1), ("http://a.test//x", 2)]), []);
        assert_eq!(found(&[("http://a.test/%00", 1), ("http://a.test/%ff", 2)]), []);
        let of_folder = [("http://a.test/x", 1), ("http://a.test/x/y", 2)];
        assert_eq!(found(&of_folder), [("a.test/x/y".to_owned(), 1)]);
        let mut other: Vec<_> = ["http://a.test/x?1", "http://a.test/x?2"].map(|url| resource(url, 5)).into();
        other[1].status = 302;
        assert_eq!(paths(&other), BTreeMap::new());
        (other[1].status, other[1].method) = (200, "POST".into());
        assert_eq!(paths(&other), BTreeMap::new());
        let twice = [("http://a.test/x?1", 5), ("http://a.test/x?2", 5)];
        assert_eq!(found(&twice), [("a.test/x".to_owned(), 0)]);
    }
}
