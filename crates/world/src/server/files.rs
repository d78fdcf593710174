//! Writes the page's response bodies to files, so that an external server can serve them. A file's path is
//! `HOST/PATH`, from the URL without its query. `index.html` is added to a path that ends in `/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fastopen_page::Resource;
use fastopen_replay::origins::ServedResource;
use percent_encoding::percent_decode_str;

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
    let path = percent_decode_str(target.split('?').next()?).decode_utf8().ok()?;
    let index = if path.ends_with('/') { INDEX } else { "" };
    let file = format!("{}{path}{index}", resource.url.host());
    let fits = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= NAME_BYTES;
    let is_path = path.starts_with('/') && !path.contains('\0') && file.split('/').all(fits);
    is_path.then(|| file.into())
}

#[cfg(test)]
#[path = "../../tests/unit/files.rs"]
mod tests;
