//! One call gives a cluster: the dev broker, or real Apache Kafka from its jars.
