mod exchanges;
mod scram_vectors;
