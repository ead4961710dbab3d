//! Structures of arrays, declared once.
//!
//! ```text
//! lane_columns! { struct Point; struct Points; { x, y } }      what controllers read and write
//!    Point<R>   { x: R, y: R }                                  one lane, or one register of lanes
//!    Points<E>  { x: Column<E>, y: Column<E> }                  [x x x x ...] [y y y y ...]
//!
//! lane_tiles!   { struct Point; struct Points; { x, y } }      what only kernels touch
//!    Points<E>  { tiles: Vec<Point<Tile<E>>> }                  [32 x][32 y] [32 x][32 y] ...
//! ```
//!
//! Columns are plain slices. Tiles keep what a kernel needs for 32 lanes, two registers of AVX-512, together: one
//! bounds check and a few neighbouring cache lines per register instead of one of each per field.

/// Declares a per-lane structure and the structure of arrays that holds many of it.
macro_rules! lane_columns {
    (
        $(#[$lane_doc:meta])* $lane_vis:vis struct $Lane:ident;
        $(#[$batch_doc:meta])* $batch_vis:vis struct $Batch:ident;
        { $( $(#[$field_doc:meta])* $field:ident ),* $(,)? }
    ) => {
        $(#[$lane_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        $lane_vis struct $Lane<R> {
            $( $(#[$field_doc])* pub $field: R, )*
        }

        $(#[$batch_doc])*
        #[derive(Debug, Clone, PartialEq)]
        $batch_vis struct $Batch<E = f32> {
            n_lanes: usize,
            $( $(#[$field_doc])* pub $field: $crate::real::Column<E>, )*
        }

        #[allow(dead_code, reason = "every batch gets the same small set of methods")]
        impl<E: $crate::real::Element> $Batch<E> {
            /// `n_lanes` copies of `lane`; the padding up to a whole register holds it too.
            $batch_vis fn filled(n_lanes: usize, lane: $Lane<E>) -> Self {
                Self { n_lanes, $( $field: $crate::real::Column::filled(n_lanes, lane.$field), )* }
            }
            /// Lanes in use, without padding.
            $batch_vis fn n_lanes(&self) -> usize {
                self.n_lanes
            }
            /// Lanes including padding: the length of every column.
            $batch_vis fn n_padded(&self) -> usize {
                $crate::real::padded_len(self.n_lanes)
            }
            /// The values of one lane, as they are now.
            $batch_vis fn get(&self, lane: usize) -> $Lane<E> {
                $Lane { $( $field: self.$field[lane], )* }
            }
            /// Replaces one lane's values.
            $batch_vis fn set(&mut self, lane: usize, value: $Lane<E>) {
                $( self.$field[lane] = value.$field; )*
            }
            /// Reads a register of lanes.
            #[inline(always)]
            $batch_vis fn load<L: $crate::real::Lanes<Elem = E>>(&self, first: usize) -> $Lane<L> {
                $Lane { $( $field: L::load(&self.$field, first), )* }
            }
            /// Writes a register of lanes.
            #[inline(always)]
            $batch_vis fn store<L: $crate::real::Lanes<Elem = E>>(&mut self, first: usize, value: $Lane<L>) {
                $( value.$field.store(&mut self.$field, first); )*
            }
        }
    };
}

/// As [`lane_columns`], stored tile by tile. Every field gets a method that lends its place.
macro_rules! lane_tiles {
    (
        $(#[$lane_doc:meta])* $lane_vis:vis struct $Lane:ident;
        $(#[$batch_doc:meta])* $batch_vis:vis struct $Batch:ident;
        { $( $(#[$field_doc:meta])* $field:ident ),* $(,)? }
    ) => {
        $(#[$lane_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        $lane_vis struct $Lane<R> {
            $( $(#[$field_doc])* pub $field: R, )*
        }

        $(#[$batch_doc])*
        #[derive(Debug, Clone, PartialEq)]
        $batch_vis struct $Batch<E = f32> {
            n_lanes: usize,
            tiles: Vec<$Lane<$crate::real::Tile<E>>>,
        }

        #[allow(dead_code, reason = "only tables for other devices are made of them")]
        impl<R: Copy> $Lane<R> {
            /// The fields' names, in order.
            pub(crate) const NAMES: &[&str] = &[$( stringify!($field) ),*];

            /// The fields, in order.
            pub(crate) fn values(&self) -> Vec<R> {
                vec![$( self.$field ),*]
            }
        }

        #[allow(dead_code, reason = "every batch gets the same small set of methods")]
        impl<E: $crate::real::Element> $Batch<E> {
            /// `n_lanes` copies of `lane`; the padding up to a whole register holds it too.
            $batch_vis fn filled(n_lanes: usize, lane: $Lane<E>) -> Self {
                let tile = $Lane { $( $field: $crate::real::Tile::filled(lane.$field), )* };
                let n_tiles = $crate::real::padded_len(n_lanes) / $crate::real::LANE_PADDING;
                Self { n_lanes, tiles: vec![tile; n_tiles] }
            }
            /// Lanes in use, without padding.
            $batch_vis fn n_lanes(&self) -> usize {
                self.n_lanes
            }
            /// Lanes including padding: a whole number of tiles.
            $batch_vis fn n_padded(&self) -> usize {
                $crate::real::padded_len(self.n_lanes)
            }
            /// The values of one lane, as they are now.
            $batch_vis fn get(&self, lane: usize) -> $Lane<E> {
                let tile = &self.tiles[lane / $crate::real::LANE_PADDING];
                let at = lane % $crate::real::LANE_PADDING;
                $Lane { $( $field: tile.$field.0[at], )* }
            }
            /// Replaces one lane's values.
            $batch_vis fn set(&mut self, lane: usize, value: $Lane<E>) {
                let tile = &mut self.tiles[lane / $crate::real::LANE_PADDING];
                let at = lane % $crate::real::LANE_PADDING;
                $( tile.$field.0[at] = value.$field; )*
            }
            /// Reads a register of lanes.
            #[inline(always)]
            $batch_vis fn load<L: $crate::real::Lanes<Elem = E>>(&self, first: usize) -> $Lane<L> {
                let tile = &self.tiles[first / $crate::real::LANE_PADDING];
                let at = first % $crate::real::LANE_PADDING;
                $Lane { $( $field: L::load(&tile.$field.0, at), )* }
            }
            /// Writes a register of lanes.
            #[inline(always)]
            $batch_vis fn store<L: $crate::real::Lanes<Elem = E>>(&mut self, first: usize, value: $Lane<L>) {
                let tile = &mut self.tiles[first / $crate::real::LANE_PADDING];
                let at = first % $crate::real::LANE_PADDING;
                $( value.$field.store(&mut tile.$field.0, at); )*
            }
            $(
                $(#[$field_doc])*
                #[inline]
                $batch_vis fn $field(&mut self, lane: usize) -> &mut E {
                    let tile = &mut self.tiles[lane / $crate::real::LANE_PADDING];
                    &mut tile.$field.0[lane % $crate::real::LANE_PADDING]
                }
            )*
        }
    };
}

pub(crate) use {lane_columns, lane_tiles};
