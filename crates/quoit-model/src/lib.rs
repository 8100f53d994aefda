//! Pure values of the store: keys, hashes, partitions, causality, objects, bucket properties.
