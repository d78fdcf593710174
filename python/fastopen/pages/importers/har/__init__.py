"""Import HARs (http://www.softwareishard.com/blog/har-12-spec/), even if they deviate from HAR 1.2."""
