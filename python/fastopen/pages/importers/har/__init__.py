"""Import HARs (http://www.softwareishard.com/blog/har-12-spec/), even if they deviate in known ways."""
