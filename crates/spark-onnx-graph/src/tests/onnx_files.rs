//! What a model may and may not read beside itself.

use std::borrow::Cow;

use spark_onnx_graph::{ModelError, Tensor, file};
use spark_onnx_proto::StringStringEntryProto;

use super::onnx_hostile::spoiled;
use crate::samples::messages::text;

/// A folder of its own, removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("spark-onnx-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("model")).expect("a folder");
        let bytes: Vec<u8> = [3.0f32, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        std::fs::write(path.join("secret"), &bytes).expect("writes");
        std::fs::write(path.join("model/weights"), &bytes).expect("writes");
        Self(path)
    }

    fn load(
        &self,
        entries: &[(&'static str, String)],
    ) -> Result<spark_onnx_graph::graph::Graph, ModelError> {
        let bytes = spoiled(|g| {
            g.initializer[0].raw_data = None;
            g.initializer[0].data_location = Some(1);
            g.initializer[0].external_data = entries
                .iter()
                .map(|(key, value)| StringStringEntryProto {
                    key: text(key),
                    value: Some(Cow::Owned(value.clone())),
                })
                .collect();
        });
        let path = self.0.join("model/net.onnx");
        std::fs::write(&path, bytes).expect("writes");
        file::load(&path)
    }

    #[track_caller]
    fn refused(&self, entries: &[(&'static str, &str)], wanted: &str) {
        let entries: Vec<_> = entries.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        let message = self.load(&entries).expect_err("refused").to_string();
        assert!(
            message.contains("`w`") && message.contains(wanted),
            "{message}"
        );
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind harms nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn elements_beside_the_model_are_read() {
    let folder = Folder::new("beside");
    let graph = folder
        .load(&[("location", "weights".to_owned())])
        .expect("loads");
    let tensor = graph.values.iter().find_map(|v| v.constant.as_deref());
    let want = Tensor::from_f32([2], vec![3.0, 4.0]).expect("a list");
    assert_eq!(tensor, Some(&want));
    // Without a folder there is nothing beside the model.
    let bytes = std::fs::read(folder.0.join("model/net.onnx")).expect("readable");
    let error = file::parse(&bytes, None)
        .expect_err("no folder")
        .to_string();
    assert!(
        error.contains("`weights`") && error.contains("folder"),
        "{error}"
    );
}

#[test]
fn external_path_escapes_the_folder() {
    let folder = Folder::new("escape");
    let absolute = folder.0.join("secret");
    let absolute = absolute.to_str().expect("UTF-8");
    let leave = "does not stay in the model's folder";
    for location in [
        absolute,
        "../secret",
        "./../secret",
        "model/../../secret",
        "",
        "a\\..\\b",
        "a\0b",
    ] {
        folder.refused(&[("location", location)], leave);
    }
    folder.refused(&[], leave);
}

#[cfg(unix)]
#[test]
fn external_path_is_a_link_that_leads_out() {
    let folder = Folder::new("link");
    std::os::unix::fs::symlink(folder.0.join("secret"), folder.0.join("model/link"))
        .expect("links");
    folder.refused(&[("location", "link")], "leads out");
    std::os::unix::fs::symlink("weights", folder.0.join("model/near")).expect("links");
    folder
        .load(&[("location", "near".to_owned())])
        .expect("a link within the folder");
}

#[test]
fn external_path_is_no_file() {
    let folder = Folder::new("file");
    std::fs::create_dir(folder.0.join("model/sub")).expect("a folder");
    folder.refused(&[("location", "sub")], "regular file");
    folder.refused(&[("location", "nobody")], "No such file");
}

#[test]
fn external_bytes_lie_outside_the_file() {
    let folder = Folder::new("outside");
    for (offset, wanted) in [
        ("1", "of a file of 8"),
        ("18446744073709551615", "of a file of 8"),
        ("-1", "no number"),
        ("99999999999999999999", "no number"),
    ] {
        folder.refused(&[("location", "weights"), ("offset", offset)], wanted);
    }
    folder.refused(
        &[("location", "weights"), ("length", "4")],
        "4 bytes stated",
    );
}

#[test]
fn a_model_that_is_no_regular_file() {
    let folder = Folder::new("model");
    let error = file::load(&folder.0).expect_err("a folder");
    assert!(matches!(error, ModelError::Io { .. }), "{error}");
    // A device without an end.
    #[cfg(unix)]
    {
        let error = file::load(std::path::Path::new("/dev/zero")).expect_err("a device");
        assert!(matches!(error, ModelError::Io { .. }), "{error}");
    }
}
