//! Recordings as Parquet files.
//!
//! ```text
//! 28 columns, four of them required (`COLUMNS`), + key "scenario_metadata" = JSON
//! ```
//!
//! Columns are found by name, in any order; unknown ones are passed over with a warning.
//! Integers, floats and booleans are read into the schema's type where that loses nothing
//! but precision. Compression: none and Snappy, the default of pandas and pyarrow.

use super::table::{COLUMNS, Column, ColumnKind, DriveMetadata, DriveRow, DriveTable, TableFault};
use crate::{SimError, files};
use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{BoolType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Most rows read: a day at 100 Hz.
const MAX_ROWS: usize = 8_640_000;
/// Rows read at a time.
const BATCH_ROWS: usize = 8192;
/// Key of the metadata.
const METADATA_KEY: &str = "scenario_metadata";

/// Reads and validates a recording.
///
/// # Errors
///
/// [`SimError::Io`] if the file cannot be opened or is no regular file, [`SimError::Parse`] if it is not Parquet
/// or its metadata is not JSON, [`SimError::Table`] naming column and row where it does not
/// follow the schema.
pub fn read_drive(path: &Path) -> Result<DriveTable, SimError> {
    let (file, _) = files::open(path)?;
    // A damaged file must not take the process down, whatever the decoder thinks of it.
    catch_unwind(AssertUnwindSafe(|| read_table(path, file))).unwrap_or_else(|_| {
        Err(SimError::Parse {
            path: path.to_owned(),
            reason: "the file is damaged beyond what the decoder can describe".to_owned(),
        })
    })
}

fn parse_error(path: &Path, error: &ParquetError) -> SimError {
    SimError::Parse {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

fn table_error(path: &Path, column: &str, row: Option<usize>, fault: TableFault) -> SimError {
    SimError::Table {
        path: path.to_owned(),
        column: column.to_owned(),
        row,
        fault,
    }
}

fn read_table(path: &Path, file: File) -> Result<DriveTable, SimError> {
    let reader = SerializedFileReader::new(file).map_err(|e| parse_error(path, &e))?;
    let about = reader.metadata().file_metadata();
    let schema = about.schema_descr();
    let metadata = read_metadata(path, about.key_value_metadata())?;

    for i in 0..schema.num_columns() {
        let name = schema.column(i).path().string();
        if !COLUMNS.iter().any(|column| column.name == name) {
            tracing::warn!(file = %path.display(), column = name, "column is not part of the schema");
        }
    }
    let mut rows: Vec<DriveRow> = Vec::new();
    for column in &COLUMNS {
        let place =
            (0..schema.num_columns()).find(|&i| schema.column(i).path().string() == column.name);
        let Some(place) = place else {
            if column.required {
                let fault = TableFault::MissingColumn;
                return Err(table_error(path, column.name, None, fault));
            }
            continue;
        };
        let values = read_column(path, &reader, place, column)?;
        if column.name == COLUMNS[0].name {
            rows = vec![DriveRow::default(); values.len()];
        }
        if values.len() != rows.len() {
            return Err(SimError::Parse {
                path: path.to_owned(),
                reason: format!(
                    "column `{}` has {} rows, `timestamp_ns` has {}",
                    column.name,
                    values.len(),
                    rows.len()
                ),
            });
        }
        for (row_idx, (row, value)) in rows.iter_mut().zip(values).enumerate() {
            match value {
                Some(value) if value.is_finite() || column.default.is_nan() => {
                    (column.set)(row, value);
                }
                None if column.default.is_nan() => {}
                other => {
                    let got = other.unwrap_or(f64::NAN);
                    let fault = TableFault::NotFinite { got };
                    return Err(table_error(path, column.name, Some(row_idx), fault));
                }
            }
        }
    }
    let table = DriveTable { metadata, rows };
    table
        .validate()
        .map_err(|(fault, column, row)| table_error(path, column, row, fault))?;
    Ok(table)
}

fn read_metadata(path: &Path, pairs: Option<&Vec<KeyValue>>) -> Result<DriveMetadata, SimError> {
    let json = pairs
        .into_iter()
        .flatten()
        .find(|pair| pair.key == METADATA_KEY)
        .and_then(|pair| pair.value.as_deref());
    match json {
        Some(json) => serde_json::from_str(json).map_err(|error| SimError::Parse {
            path: path.to_owned(),
            reason: format!("key `{METADATA_KEY}`: {error}"),
        }),
        None => {
            let name = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            Ok(DriveMetadata::named(name.unwrap_or_default()))
        }
    }
}

/// Every value of a column as a number; `None` is null.
fn read_column(
    path: &Path,
    reader: &SerializedFileReader<File>,
    place: usize,
    column: &Column,
) -> Result<Vec<Option<f64>>, SimError> {
    let described = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .column(place);
    let physical = described.physical_type();
    let fits = match column.kind {
        ColumnKind::Flag => matches!(
            physical,
            Physical::BOOLEAN | Physical::INT32 | Physical::INT64
        ),
        ColumnKind::Integer => matches!(physical, Physical::INT32 | Physical::INT64),
        ColumnKind::Number => matches!(
            physical,
            Physical::FLOAT | Physical::DOUBLE | Physical::INT32 | Physical::INT64
        ),
    };
    if !fits || described.max_rep_level() > 0 {
        let fault = TableFault::WrongType {
            got: physical.to_string(),
            want: column.kind,
        };
        return Err(table_error(path, column.name, None, fault));
    }
    let mut values = Vec::new();
    for group in 0..reader.num_row_groups() {
        let columns = reader
            .get_row_group(group)
            .map_err(|e| parse_error(path, &e))?;
        let column_reader = columns
            .get_column_reader(place)
            .map_err(|e| parse_error(path, &e))?;
        let full = described.max_def_level();
        let read = match column_reader {
            ColumnReader::BoolColumnReader(r) => {
                append::<BoolType>(r, full, &mut values, |v| f64::from(u8::from(*v)))
            }
            ColumnReader::Int32ColumnReader(r) => {
                append::<Int32Type>(r, full, &mut values, |v| f64::from(*v))
            }
            ColumnReader::Int64ColumnReader(r) => {
                append::<Int64Type>(r, full, &mut values, |v| *v as f64)
            }
            ColumnReader::FloatColumnReader(r) => {
                append::<FloatType>(r, full, &mut values, |v| f64::from(*v))
            }
            ColumnReader::DoubleColumnReader(r) => {
                append::<DoubleType>(r, full, &mut values, |v| *v)
            }
            _ => Err(ParquetError::General("unexpected column type".to_owned())),
        };
        read.map_err(|e| parse_error(path, &e))?;
    }
    Ok(values)
}

fn append<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    full_level: i16,
    values: &mut Vec<Option<f64>>,
    number: impl Fn(&T::T) -> f64,
) -> Result<(), ParquetError> {
    loop {
        let (mut present, mut levels) = (Vec::new(), Vec::new());
        let wanted_levels = (full_level > 0).then_some(&mut levels);
        let (n_records, _, _) =
            reader.read_records(BATCH_ROWS, wanted_levels, None, &mut present)?;
        if n_records == 0 {
            return Ok(());
        }
        if values.len() + n_records > MAX_ROWS {
            return Err(ParquetError::General(format!("more than {MAX_ROWS} rows")));
        }
        if full_level == 0 {
            values.extend(present.iter().map(|v| Some(number(v))));
            continue;
        }
        let mut present = present.iter();
        values.extend(levels.iter().map(|&level| {
            if level == full_level {
                present.next().map(&number)
            } else {
                None
            }
        }));
    }
}

/// Validates a recording and writes it.
///
/// # Errors
///
/// [`SimError::Table`] if it does not follow the schema, [`SimError::Io`] if the file cannot
/// be written, [`SimError::Parse`] if the encoder refuses.
pub fn write_drive(path: &Path, table: &DriveTable) -> Result<(), SimError> {
    table
        .validate()
        .map_err(|(fault, column, row)| table_error(path, column, row, fault))?;
    let bytes = encode(table).map_err(|e| parse_error(path, &e))?;
    files::write(path, &bytes)
}

fn encode(table: &DriveTable) -> Result<Vec<u8>, ParquetError> {
    let fields: String = COLUMNS
        .iter()
        .map(|column| {
            let repetition = if column.default.is_nan() {
                "OPTIONAL"
            } else {
                "REQUIRED"
            };
            let physical = match column.kind {
                ColumnKind::Integer => "INT64",
                ColumnKind::Number => "DOUBLE",
                ColumnKind::Flag => "BOOLEAN",
            };
            format!("{repetition} {physical} {};\n", column.name)
        })
        .collect();
    let schema = parse_message_type(&format!("message schema {{\n{fields}}}"))?;
    let json =
        serde_json::to_string(&table.metadata).map_err(|e| ParquetError::General(e.to_string()))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new(METADATA_KEY.to_owned(), json)]))
        .build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &COLUMNS {
        let Some(mut open) = group.next_column()? else {
            return Err(ParquetError::General(
                "fewer columns than declared".to_owned(),
            ));
        };
        let numbers = table.rows.iter().map(column.get);
        match open.untyped() {
            ColumnWriter::Int64ColumnWriter(writer) => {
                let values: Vec<i64> = numbers.map(|x| x as i64).collect();
                writer.write_batch(&values, None, None)?;
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                let values: Vec<bool> = numbers.map(|x| x != 0.0).collect();
                writer.write_batch(&values, None, None)?;
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let all: Vec<f64> = numbers.collect();
                if column.default.is_nan() {
                    let levels: Vec<i16> = all.iter().map(|x| i16::from(!x.is_nan())).collect();
                    let known: Vec<f64> = all.into_iter().filter(|x| !x.is_nan()).collect();
                    writer.write_batch(&known, Some(&levels), None)?;
                } else {
                    writer.write_batch(&all, None, None)?;
                }
            }
            _ => return Err(ParquetError::General("unexpected column type".to_owned())),
        }
        open.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}
