//! Six-bit codes as a bit stream, least significant bits first: four codes in three bytes.

/// Packs codes; `packed` holds three bytes for every four.
pub(crate) fn pack_sixes(codes: &[u8], packed: &mut [u8]) {
    for (codes, bytes) in codes
        .as_chunks::<4>()
        .0
        .iter()
        .zip(packed.as_chunks_mut::<3>().0)
    {
        let stream = codes
            .iter()
            .rev()
            .fold(0u32, |stream, &code| stream << 6 | u32::from(code & 0x3F));
        let [first, second, third, _] = stream.to_le_bytes();
        *bytes = [first, second, third];
    }
}

/// Inverse of [`pack_sixes`]: three bytes give four codes, the first in the lowest bits.
pub(crate) fn unpack_sixes(packed: &[u8], codes: &mut [u8]) {
    for (codes, bytes) in codes
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip(packed.as_chunks::<3>().0)
    {
        let stream = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        *codes = std::array::from_fn(|i| (stream >> (6 * i) & 0x3F) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixes_survive_a_round_trip_and_start_at_the_low_bit() {
        let codes: Vec<u8> = (0..64).collect();
        let mut packed = vec![0; 48];
        pack_sixes(&codes, &mut packed);
        assert_eq!(packed[..3], [0b0100_0000, 0b0010_0000, 0b0000_1100]);
        let mut back = vec![0; 64];
        unpack_sixes(&packed, &mut back);
        assert_eq!(back, codes);
    }
}
