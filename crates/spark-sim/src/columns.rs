//! Structures of arrays, declared once.
//!
//! ```text
//! lane_columns! { struct Point<R>, struct Points<E> { x, y } }
//!    Point<R>   { x: R, y: R }               one lane, or one register of lanes
//!    Points<E>  { x: Vec<E>, y: Vec<E> }     all lanes, padded to whole registers
//! ```

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
            $( $(#[$field_doc])* pub $field: Vec<E>, )*
        }

        #[allow(dead_code, reason = "every batch gets the same small set of methods")]
        impl<E: $crate::real::Element> $Batch<E> {
            /// `n_lanes` copies of `lane`; the padding up to a whole register holds it too.
            $batch_vis fn filled(n_lanes: usize, lane: $Lane<E>) -> Self {
                let padded = $crate::real::padded_len(n_lanes);
                Self { n_lanes, $( $field: vec![lane.$field; padded], )* }
            }
            /// Lanes in use, without padding.
            $batch_vis fn n_lanes(&self) -> usize {
                self.n_lanes
            }
            /// Lanes including padding: the length of every column.
            $batch_vis fn n_padded(&self) -> usize {
                $crate::real::padded_len(self.n_lanes)
            }
            /// One lane's values.
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
pub(crate) use lane_columns;
