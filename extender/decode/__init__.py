"""From the API's JSON to the records of ``model``. No I/O, no clock, no logging."""
