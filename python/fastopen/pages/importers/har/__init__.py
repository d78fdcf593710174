"""Import HARs (http://www.softwareishard.com/blog/har-12-spec/) in the variants that programs write."""
