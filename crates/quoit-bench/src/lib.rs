//! The load generator: basho_bench configurations, drivers, measurement, reports.
